"""W_O by following the tensor: the matrix that takes z is W_O, whatever a family calls it and wherever it stands.

Where something stands between z and W_O, gradients say what: if slice h of W_O's input depends on head h alone it is
local to the head (a gate, a norm of each head), else it mixes the heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.huggingface.attention import AttentionCall
from headscope.models.protocol import HeadSum, OutputWeight
from headscope.models.structure.trace import Trace, hooked, is_matrix, tracing

Layout = Literal["as z", "turned", "own"]


@dataclass(frozen=True)
class OutputPath:
    """Where a site's z went: the path of W_O, and what kind of sum its heads make there."""

    matrix: str | None
    kind: HeadSum
    why: str = ""
    layout: Layout = "as z"
    """How the rows of W_O's input lie: as z's do, with batch and position turned, or in an order of their own."""
    after: str | None = None
    """The path of a norm that takes W_O's output before it joins the residual stream."""
    direct: bool = False
    """Whether W_O was seen to read z's own memory, so that z says all about its input."""


def follow(model: nn.Module, seen: Trace, inputs: Mapping[str, Tensor], call: dict[str, Any]) -> list[OutputPath]:
    """For each visit of the trace, where its z went."""
    lost = {(visit.path, visit.times) for visit in seen.visits if visit.matrix is None}
    found = _by_gradient(model, inputs, call, lost) if lost else {}
    for path, times in sorted(found, key=lambda key: key[1]):  # a module called again goes the same way
        found.setdefault((path, 0), found[path, times])
    ways = [
        OutputPath(visit.matrix, "exact", direct=True)
        if visit.matrix is not None
        else found.get((visit.path, visit.times)) or found.get((visit.path, 0)) or OutputPath(None, "mixed", NO_MATRIX)
        for visit in seen.visits
    ]
    after = _norms_after({way.matrix for way in ways if way.matrix is not None}, seen)
    return [replace(way, after=after.get(way.matrix or "")) for way in ways]


def _norms_after(matrices: set[str], seen: Trace) -> dict[str, str]:
    """For each W_O, the leaf that took its output and changed it without being a matrix: a norm after attention."""
    made = {leaf.left.data_ptr(): leaf.path for leaf in seen.leaves if leaf.path in matrices}
    found: dict[str, str] = {}
    for leaf in seen.leaves:
        changes = leaf.left.data_ptr() != leaf.entered.data_ptr() and leaf.left.shape == leaf.entered.shape
        if changes and not is_matrix(leaf.module) and leaf.entered.data_ptr() in made:
            found.setdefault(made[leaf.entered.data_ptr()], leaf.path)
    return found


NO_MATRIX = "no single matrix takes the heads side by side: W_O has several stages here, or is chosen for each token"
LOCAL = "a gate or norm acts on each head between z and W_O; parts are taken at W_O's input"
MIXED = "a norm over all heads, or a sum of several, stands between z and W_O; parts share what it computes"
SEVERAL = "several attention calls are joined before W_O"


def _by_gradient(
    model: nn.Module, inputs: Mapping[str, Tensor], call: dict[str, Any], lost: set[tuple[str, int]]
) -> dict[tuple[str, int], OutputPath]:
    """A second pass with gradients, cut at every lost z, to see which matrix depends on it and how."""
    paths = {id(module): path for path, module in model.named_modules()}
    times: dict[str, int] = {}
    waiting: dict[tuple[str, int], Tensor] = {}
    found: dict[tuple[str, int], OutputPath] = {}

    def arrive(arrival: AttentionCall) -> Tensor:
        path = paths.get(id(arrival.call.site), "")
        times[path] = times.get(path, 0) + 1
        z = arrival.z.detach()
        if (path, times[path]) not in lost:
            return z
        waiting[path, times[path]] = z.requires_grad_()
        return z * 1

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        x = args[0] if args and isinstance(args[0], Tensor) else None
        if x is None or not x.requires_grad:
            return
        for key, z in list(waiting.items()):
            if x.shape[-1] == z.shape[2] * z.shape[3] and (how := _depends(x, z)) is not None:
                found[key] = OutputPath(paths[id(module)], *how)
                del waiting[key]

    matrices = [part for part in model.modules() if is_matrix(part)]
    with hooked(matrices, enter=before), tracing(arrive), torch.enable_grad():
        model(**inputs, **call)
    return found


def _depends(x: Tensor, z: Tensor) -> tuple[HeadSum, str, Layout] | None:
    """How W_O's input depends on z; None if it does not, or if it is not by head at all."""
    batch, n_query, n_heads, d_value = z.shape
    slices = x.reshape(-1, n_heads, d_value)
    dice = torch.Generator(device="cpu").manual_seed(0)
    pattern = torch.randn(slices.shape[0], d_value, generator=dice).to(x)
    local = True
    for head in {0, n_heads - 1}:
        (gradient,) = torch.autograd.grad((slices[:, head] * pattern).sum(), z, retain_graph=True, allow_unused=True)
        if gradient is None or not gradient.any():
            return None
        strength = gradient.abs().sum((0, 1, 3))
        local = local and bool((strength[torch.arange(n_heads, device=z.device) != head] == 0).all())
    layout: Layout = "own"
    if tuple(x.shape[:2]) == (batch, n_query) or (x.ndim == 2 and len(x) == batch * n_query):
        layout = "as z"
    elif tuple(x.shape[:2]) == (n_query, batch):
        layout = "turned"
    if local and _same_rows(x, z):
        return "exact", "" if layout != "own" else SEVERAL, layout
    return ("head-local", LOCAL, layout) if local else ("mixed", MIXED, layout)


def _same_rows(x: Tensor, z: Tensor) -> bool:
    """Whether one is made of the other's rows, only in another order or number."""
    left, right = ({row.tobytes() for row in t.detach().float().cpu().reshape(-1, x.shape[-1]).numpy()} for t in (x, z))
    return left <= right or right <= left


def weight_by_head(model: nn.Module, how: OutputPath, n_heads: int, site: str) -> OutputWeight:
    """W_O cut into the rows of each head, with its bias, and the norm after it if there is one."""
    assert how.matrix is not None
    weight, bias = weight_and_bias(model.get_submodule(how.matrix), site)
    after = None if how.after is None else model.get_submodule(how.after)
    if weight.shape[0] % n_heads:
        raise ModelError(f"{site}: W_O takes {weight.shape[0]} numbers, which {n_heads} heads do not share evenly")
    return OutputWeight(weight.reshape(n_heads, -1, weight.shape[1]), bias, how.kind, how.why, after)


def weight_and_bias(matrix: nn.Module, site: str) -> tuple[Float[Tensor, "in out"], Float[Tensor, " out"] | None]:
    """A matrix as ``x @ weight + bias``, read from its parameters or, where it is packed, from what it does."""
    weight, bias = getattr(matrix, "weight", None), getattr(matrix, "bias", None)
    if isinstance(weight, Tensor) and weight.device.type == "meta":
        raise ModelError(f"{site}: its weights are offloaded; load the model with all layers in memory")
    plain = type(matrix) is nn.Linear or type(matrix).__name__ == "Conv1D"
    if plain and isinstance(weight, Tensor) and weight.is_floating_point():
        return (weight if type(matrix).__name__ == "Conv1D" else weight.T), bias
    return _by_doing(matrix, site)


@torch.no_grad()
def _by_doing(matrix: nn.Module, site: str) -> tuple[Tensor, Tensor | None]:
    """Quantised or adapted: what it answers to each unit vector, less what it answers to none."""
    width = int(matrix.in_features)  # type: ignore[arg-type]
    place = next(iter(matrix.parameters()), None)
    device = torch.device("cpu") if place is None else place.device
    dtype = next((p.dtype for p in matrix.parameters() if p.is_floating_point()), torch.float32)
    units = torch.eye(width, device=device, dtype=dtype)
    nothing = matrix(torch.zeros(1, width, device=device, dtype=dtype))
    weight = matrix(units) - nothing
    trial = torch.randn(4, width, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    answer = matrix(trial).double()
    gap = (trial.double() @ weight.double() + nothing.double() - answer).abs().max() / answer.abs().max()
    if not float(gap) <= (2e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-3):
        raise ModelError(
            f"{site}: its {type(matrix).__name__} rounds what it reads, so it is no matrix that heads could be split "
            "through; open the model without quantising activations"
        )
    return weight, nothing[0] if bool(nothing.any()) else None


def rows_by_head(x: Tensor, z: Float[Tensor, "batch query head d_value"], layout: Layout) -> Tensor:
    """W_O's input or output as ``[batch, query, width]``."""
    if layout == "turned":
        return x.transpose(0, 1)
    if layout == "as z" and x.numel() // x.shape[-1] == z.shape[0] * z.shape[1]:
        return x.reshape(*z.shape[:2], x.shape[-1])
    return x[None] if x.ndim == 2 else x.reshape(x.shape[0], -1, x.shape[-1])
