"""Find W_O of each site by following z: the matrix that takes z is W_O, whatever a model family calls it.

Where something lies between z and W_O, gradients say what: if slice h of W_O's input depends on head h alone it is
local to the head (a gate, a norm of each head), else it mixes the heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.huggingface.attention import AttentionCall
from headscope.models.protocol import HeadSum, OutputWeight
from headscope.models.structure.trace import Trace, hooked, is_matrix, tracing

Layout = Literal["batch first", "query first", "other"]


@dataclass(frozen=True)
class OutputPath:
    """Where a site's z goes: the path of W_O, and how the heads' parts add up there."""

    matrix: str | None
    kind: HeadSum
    why: str = ""
    layout: Layout = "batch first"
    """The order of the rows of W_O's input: as in z, with batch and query exchanged, or another."""
    post_norm: str | None = None
    """The path of a norm between W_O and the residual stream."""
    direct: bool = False
    """Whether W_O reads z's own memory, so that z alone determines its input."""


def find_output_paths(
    model: nn.Module, traced: Trace, inputs: Mapping[str, Tensor], arguments: dict[str, Any]
) -> list[OutputPath]:
    """Where z goes, for each attention call of the trace."""
    unmatched = {(call.path, call.times) for call in traced.calls if call.matrix is None}
    found = _find_by_gradient(model, inputs, arguments, unmatched) if unmatched else {}
    for path, times in sorted(found, key=lambda key: key[1]):  # later calls of a module go where its first one went
        found.setdefault((path, 0), found[path, times])
    paths = [
        OutputPath(call.matrix, "exact", direct=True)
        if call.matrix is not None
        else found.get((call.path, call.times)) or found.get((call.path, 0)) or OutputPath(None, "mixed", NO_MATRIX)
        for call in traced.calls
    ]
    norms = _post_norms({path.matrix for path in paths if path.matrix is not None}, traced)
    return [replace(path, post_norm=norms.get(path.matrix or "")) for path in paths]


def _post_norms(matrices: set[str], traced: Trace) -> dict[str, str]:
    """For each W_O, the leaf that took its output and changed it without being a matrix: a norm after attention."""
    made = {leaf.output.data_ptr(): leaf.path for leaf in traced.leaves if leaf.path in matrices}
    found: dict[str, str] = {}
    for leaf in traced.leaves:
        changes = leaf.output.data_ptr() != leaf.input.data_ptr() and leaf.output.shape == leaf.input.shape
        if changes and not is_matrix(leaf.module) and leaf.input.data_ptr() in made:
            found.setdefault(made[leaf.input.data_ptr()], leaf.path)
    return found


NO_MATRIX = "no single matrix takes the heads side by side: W_O has several stages here, or is chosen for each token"
LOCAL = "a gate or norm acts on each head between z and W_O; head parts are taken at W_O's input"
MIXED = "a norm over all heads, or a sum of several, lies between z and W_O; head parts share what it computes"
SEVERAL = "several attention calls are joined before W_O"


def _find_by_gradient(
    model: nn.Module, inputs: Mapping[str, Tensor], arguments: dict[str, Any], unmatched: set[tuple[str, int]]
) -> dict[tuple[str, int], OutputPath]:
    """Run again with gradients from every unmatched z, to see which matrix depends on it and how."""
    paths = {id(module): path for path, module in model.named_modules()}
    times: Counter[str] = Counter()
    waiting: dict[tuple[str, int], Tensor] = {}
    found: dict[tuple[str, int], OutputPath] = {}

    def on_call(attention: AttentionCall) -> Tensor:
        path = paths.get(id(attention.call.site), "")
        times[path] += 1
        z = attention.z.detach()
        if (path, times[path]) not in unmatched:
            return z
        waiting[path, times[path]] = z.requires_grad_()
        return z * 1

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        x = args[0] if args and isinstance(args[0], Tensor) else None
        if x is None or not x.requires_grad:
            return
        for key, z in list(waiting.items()):
            if x.shape[-1] == z.shape[2] * z.shape[3] and (how := dependence(x, z)) is not None:
                found[key] = OutputPath(paths[id(module)], *how)
                del waiting[key]

    matrices = [part for part in model.modules() if is_matrix(part)]
    with hooked(matrices, before=before), tracing(on_call), torch.enable_grad():
        model(**inputs, **arguments)
    return found


def dependence(x: Tensor, z: Tensor) -> tuple[HeadSum, str, Layout] | None:
    """How W_O's input depends on z; None if it does not, or if it is not by head at all."""
    batch, n_query, n_heads, d_value = z.shape
    slices = x.reshape(-1, n_heads, d_value)
    generator = torch.Generator(device="cpu").manual_seed(0)
    direction = torch.randn(slices.shape[0], d_value, generator=generator).to(x)
    local = True
    for head in {0, n_heads - 1}:
        (gradient,) = torch.autograd.grad((slices[:, head] * direction).sum(), z, retain_graph=True, allow_unused=True)
        if gradient is None or not gradient.any():
            return None
        strength = gradient.abs().sum((0, 1, 3))
        local = local and bool((strength[torch.arange(n_heads, device=z.device) != head] == 0).all())
    layout: Layout = "other"
    if tuple(x.shape[:2]) == (batch, n_query) or (x.ndim == 2 and len(x) == batch * n_query):
        layout = "batch first"
    elif tuple(x.shape[:2]) == (n_query, batch):
        layout = "query first"
    if local and _same_rows(x, z):
        return "exact", SEVERAL if layout == "other" else "", layout
    return ("head-local", LOCAL, layout) if local else ("mixed", MIXED, layout)


def _same_rows(x: Tensor, z: Tensor) -> bool:
    """Whether the rows of one are rows of the other, in any order or number."""
    left, right = ({row.tobytes() for row in t.detach().float().cpu().reshape(-1, x.shape[-1]).numpy()} for t in (x, z))
    return left <= right or right <= left


def weight_by_head(model: nn.Module, path: OutputPath, n_heads: int, site: str) -> OutputWeight:
    """W_O split into the rows of each head, with its bias, and the norm after it if there is one."""
    assert path.matrix is not None
    weight, bias = weight_and_bias(model.get_submodule(path.matrix), site)
    norm = None if path.post_norm is None else model.get_submodule(path.post_norm)
    if weight.shape[0] % n_heads:
        raise ModelError(f"{site}: W_O has {weight.shape[0]} inputs, not a multiple of {n_heads} heads")
    return OutputWeight(weight.reshape(n_heads, -1, weight.shape[1]), bias, path.kind, path.why, norm)


def weight_and_bias(matrix: nn.Module, site: str) -> tuple[Float[Tensor, "in out"], Float[Tensor, " out"] | None]:
    """A matrix as ``x @ weight + bias``, from its parameters or, where they are quantised, from its outputs."""
    weight, bias = getattr(matrix, "weight", None), getattr(matrix, "bias", None)
    if isinstance(weight, Tensor) and weight.device.type == "meta":
        raise ModelError(f"{site}: its weights are offloaded; load the model with all layers in memory")
    conv1d = type(matrix).__name__ == "Conv1D"
    plain = conv1d or type(matrix) in (nn.Linear, nn.Embedding)
    if plain and isinstance(weight, Tensor) and weight.is_floating_point():
        with suppress(
            NotImplementedError
        ):  # a quantised subclass of tensors, as torchao's, may do nothing but multiply
            return (weight if conv1d else weight.T), bias
    return _measured(matrix, site)


@torch.no_grad()
def _measured(matrix: nn.Module, site: str) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a quantised or adapted matrix: its outputs for unit vectors, and for zero."""
    width = int(matrix.in_features)  # type: ignore[arg-type]
    device = next((weight.device for weight in matrix.parameters()), torch.device("cpu"))
    dtype = next((weight.dtype for weight in matrix.parameters() if weight.is_floating_point()), torch.float32)
    bias = matrix(torch.zeros(1, width, device=device, dtype=dtype))
    weight = matrix(torch.eye(width, device=device, dtype=dtype)) - bias
    trial = torch.randn(4, width, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    output = matrix(trial).double()
    gap = (trial.double() @ weight.double() + bias.double() - output).abs().max() / output.abs().max()
    if not float(gap) <= (2e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-3):
        raise ModelError(
            f"{site}: its {type(matrix).__name__} quantises its input, so it is not linear and heads cannot be split "
            "through it; open the model without quantising activations"
        )
    return weight, bias[0] if bool(bias.any()) else None


def rows_by_head(x: Tensor, z: Float[Tensor, "batch query head d_value"], layout: Layout) -> Tensor:
    """W_O's input or output as ``[batch, query, width]``."""
    if layout == "query first":
        return x.transpose(0, 1)
    if layout == "batch first" and x.numel() // x.shape[-1] == z.shape[0] * z.shape[1]:
        return x.reshape(*z.shape[:2], x.shape[-1])
    return x[None] if x.ndim == 2 else x.reshape(x.shape[0], -1, x.shape[-1])
