"""Find W_O of each site by following z: the first matrix that takes it is W_O, whatever a model family calls it.

The trace carries z there through shapes, gates and norms. Where these only arrange it, numbers of its cells are carried
along the same operations and say which is where. Else heads are changed one by one: if slice h of W_O's input depends
on head h alone it is local to the head (a gate, a norm of each head), else it mixes the heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.protocol import HeadSum, Layout, OutputWeight
from headscope.models.structure.carry import Route, recompute
from headscope.models.structure.tape import ARRANGE, Node, Op, SourceNode, carried_into, walk
from headscope.models.structure.trace import TracedPass


@dataclass(frozen=True)
class OutputPath:
    """Where a site's z goes: the path of W_O, and how the heads' parts add up there."""

    matrix: str | None
    kind: HeadSum
    why: str = ""
    layout: Layout = "batch first"


def find_output_paths(traced: TracedPass) -> list[OutputPath]:
    """Where z goes, for each attention call of the trace. Later calls of a module go where its first one went."""
    found: dict[str, OutputPath] = {}
    paths = []
    for call in traced.calls:
        how = None if call.x is None else how_heads_reach(call.z, call.x, Heads(tuple(call.z.shape)))
        path = found.get(call.path) or OutputPath(None, "mixed", NO_MATRIX)
        paths.append(path if how is None else OutputPath(call.matrix, *how))
        found.setdefault(call.path, paths[-1])
    return paths


def find_post_norms(model: nn.Module, ends: Iterable[Node]) -> dict[str, nn.Module]:
    """For each site, the leaf that acts on what W_O wrote before anything is added to it: a norm after attention."""
    alone: dict[Node, str] = {}
    found: dict[str, nn.Module] = {}
    for op in sorted((node for node in walk(ends, carried_into) if isinstance(node, Op)), key=lambda op: op.order):
        (read, *others) = [node for node in op.parents if node.dynamic] or [op]
        heads = read.heads if isinstance(read, SourceNode) else None
        site = alone.get(read) if heads is None else heads.site
        if others or site is None:
            continue
        module = model.get_submodule(op.path)
        if next(module.children(), None) is None:
            found.setdefault(site, module)
        else:
            alone[op] = site
    return found


NO_MATRIX = "no single matrix takes the heads side by side: W_O has several stages here, or is chosen for each token"
LOCAL = "a gate or norm acts on each head between z and W_O; head parts are taken at W_O's input"
MIXED = "a norm over all heads, or a sum of several, lies between z and W_O; head parts share what it computes"
SEVERAL = "several attention calls are joined before W_O"


class Heads(NamedTuple):
    """Where the heads are in a z: its sizes ``batch, query, head, d_value``, and how they become its own axes."""

    shape: tuple[int, ...]
    from_heads: Callable[[Tensor], Tensor] = lambda z: z
    channels_last: Callable[[Tensor], Tensor] = lambda x: x
    """Brings the input of W_O to channels last."""


def how_heads_reach(z: SourceNode, x: Node, heads: Heads) -> tuple[HeadSum, str, Layout] | None:
    """Return how W_O's input comes from z, the reason, and its row order; None if not every head reaches it."""
    batch, n_query, n_heads, d_value = heads.shape
    size = heads.channels_last(torch.empty(x.shape, device="meta")).shape
    if size[-1] != n_heads * d_value:
        return None
    exact = _rows(z, x, heads)
    if exact is not None:
        return "exact", SEVERAL if exact == "other" else "", exact
    layout: Layout = "other"
    if tuple(size[:2]) == (batch, n_query) or (len(size) == 2 and size[0] == batch * n_query):
        layout = "batch first"
    elif tuple(size[:2]) == (n_query, batch):
        layout = "query first"
    reached = [_reached(z, x, heads, head) for head in range(n_heads)]
    if not all(bool(channels.any()) for channels in reached):
        return None
    owner = torch.arange(n_heads, device=reached[0].device).repeat_interleave(d_value)
    local = all(bool((owner[channels] == head).all()) for head, channels in enumerate(reached))
    return ("head-local", LOCAL, layout) if local else ("mixed", MIXED, layout)


def _rows(z: SourceNode, x: Node, heads: Heads) -> Layout | None:
    """The order of z's rows in x, where x is z itself, arranged: the numbers of z's cells are carried to it."""
    route = Route(x)
    if any(op.name not in ARRANGE for op in route.ops):
        return None
    batch, n_query, n_heads, d_value = heads.shape
    width = n_heads * d_value
    made = route.carry(z, heads.from_heads(cell_numbers(z).view(heads.shape)))
    if made is None:
        return None
    cells = heads.channels_last(made).reshape(-1, width).long().cpu() - 1
    cells = cells[(cells >= 0).all(1)]
    number = cells[:, 0] // width
    if not len(cells) or not torch.equal(cells, number[:, None] * width + torch.arange(width)):
        return None
    rows = torch.arange(batch * n_query)
    if torch.equal(number, rows):
        return "batch first"
    return "query first" if torch.equal(number, rows.view(batch, n_query).T.flatten()) else "other"


def cell_numbers(z: SourceNode) -> Float[Tensor, " cell"]:
    """A number for each cell of z, from one; float32 holds whole numbers up to 2**24."""
    assert z.value is not None
    count = z.shape.numel()
    dtype = torch.float32 if count < 2**24 else torch.float64
    return torch.arange(1.0, count + 1, dtype=dtype, device=z.value.device)


def _reached(z: SourceNode, x: Node, heads: Heads, head: int) -> Bool[Tensor, " all"]:
    """The channels of x that one head's z changes, with gates and norms computed again."""
    assert z.value is not None
    own = torch.zeros(heads.shape)
    own[:, :, head] = torch.randn(own[:, :, head].shape, generator=torch.Generator().manual_seed(0))
    change = heads.from_heads(own).to(z.value)
    given: tuple[dict[Node, Tensor], ...] = ({z: z.value}, {z: torch.where(change != 0, change, z.value)})
    before, after = (heads.channels_last(recompute(x, each)) for each in given)
    return (before != after).reshape(-1, before.shape[-1]).any(0)


def weight_by_head(model: nn.Module, path: OutputPath, n_heads: int, site: str) -> OutputWeight:
    """W_O split into the rows of each head, with its bias."""
    assert path.matrix is not None
    weight, bias = weight_and_bias(model.get_submodule(path.matrix), site)
    if weight.shape[0] % n_heads:
        raise ModelError(f"{site}: W_O has {weight.shape[0]} inputs, not a multiple of {n_heads} heads")
    by_head = weight.reshape(n_heads, -1, weight.shape[1])
    return OutputWeight(by_head, bias, path.kind, path.why, path.layout)


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


def rows_by_head(
    x: Tensor, rows: tuple[int, int], n_heads: int, layout: Layout
) -> Float[Tensor, "batch query head d_value"]:
    """The input of W_O by head; ``rows``: batch and queries of z."""
    if layout == "query first":
        x = x.transpose(0, 1)
    elif layout == "batch first" and x.numel() // x.shape[-1] == rows[0] * rows[1]:
        x = x.reshape(*rows, x.shape[-1])
    else:
        x = x[None] if x.ndim == 2 else x.reshape(x.shape[0], -1, x.shape[-1])
    return x.reshape(*x.shape[:-1], n_heads, -1)
