"""Carry parts of the residual stream along a recorded pass, with norms and gates frozen; or recompute it exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from headscope.models.modes import own_precision
from headscope.models.structure.tape import MATRIX, NORM, Node, Op, Slot, SourceNode, carried_into, walk

Columns = Mapping[Op, Tensor]
"""Of a matrix: the columns of its output that are wanted; the others are left zero."""

Replaced = Mapping[int, Tensor]
"""Held values that are replaced by others, by the id of the value."""


class Route:
    """The operations that carry sources to one node, in order."""

    def __init__(self, target: Node) -> None:
        self.target = target
        nodes = walk([target], carried_into)
        self.sources = [node for node in nodes if isinstance(node, SourceNode)]
        self.ops = sorted((node for node in nodes if isinstance(node, Op)), key=lambda op: op.order)

    def matrices(self) -> list[Op]:
        return [op for op in self.ops if op.name in MATRIX]

    def carry(
        self, source: Node, parts: Tensor, columns: Columns | None = None, replaced: Replaced | None = None
    ) -> Tensor | None:
        """What one part of a source becomes at the target; None if nothing of it gets there.

        A first axis of many parts is for ``torch.vmap``.
        """
        return self.carry_together({source: parts}, columns, replaced)

    def carry_together(
        self, parts: Mapping[Node, Tensor], columns: Columns | None = None, replaced: Replaced | None = None
    ) -> Tensor | None:
        """What parts of several sources become at the target, added up."""
        values: dict[Node, Tensor] = {**parts}
        for op in self.ops:
            present = {slot: values[slot.node] for slot in op.slots if slot.carried and slot.node in values}
            if present and op not in parts:
                values[op] = _apply(op, present, columns or {}, replaced or {})
        return values.get(self.target)

    def carry_all(
        self, source: Node, parts: Tensor, columns: Columns | None = None, replaced: Replaced | None = None
    ) -> Tensor | None:
        """The same for a stack of parts, along a first axis."""
        if self.target is source:
            return parts
        if not any(slot.node is source for op in self.ops for slot in op.slots if slot.carried):
            return None

        def one(part: Tensor) -> Tensor:
            made = self.carry(source, part, columns, replaced)
            assert made is not None
            return made

        if len(parts) == 1:
            return one(parts[0])[None]
        try:
            return torch.vmap(one)(parts)
        except RuntimeError:  # an operation without a rule for batches
            return torch.stack([one(part) for part in parts])


def wide(dtype: torch.dtype) -> torch.dtype:
    """The precision in which parts are carried."""
    return torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32


def _held(value: Tensor, like: Tensor) -> Tensor:
    if not value.is_floating_point() or value.dtype == like.dtype or like.is_complex():
        return value
    return value.to(like.dtype)


def _apply(op: Op, present: Mapping[Slot, Tensor], columns: Columns, replaced: Replaced) -> Tensor:
    """One operation on parts: what is absent is zero, what is held has its value."""
    like = next(iter(present.values()))
    if op.name in ("_to_copy", "clone", "copy", "alias", "detach", "lift_fresh"):
        return like.expand(op.shape).to(op.kwargs.get("device") or like.device)
    if op.name in ("view", "_unsafe_view", "reshape", "_reshape_alias"):
        return like.reshape(op.shape)
    if op.name in ("add", "sub", "rsub") and len(present) == 1:
        return _one_term(op, present)
    if op.name in NORM:
        return _norm(op, present)
    if op.name in MATRIX:
        return _matrix(op, present, columns)
    args = tuple(_filled(arg, present, like, replaced) for arg in op.args)
    if op.name == "as_strided_scatter":
        return _scatter(*args)
    made = op.func(*args, **op.kwargs)
    found: Tensor = made if op.out is None else made[op.out]
    return found


def _filled(arg: Any, present: Mapping[Slot, Tensor], like: Tensor, replaced: Replaced) -> Any:
    if isinstance(arg, (tuple, list)):
        return type(arg)(_filled(each, present, like, replaced) for each in arg)
    if not isinstance(arg, Slot):
        return arg
    if arg.carried:
        return present[arg] if arg in present else like.new_zeros(arg.shape)
    assert arg.value is not None
    return _held(replaced.get(id(arg.value), arg.value), like)


def _scatter(whole: Tensor, part: Tensor, size: list[int], stride: list[int], offset: int) -> Tensor:
    """Write a part into a view of a contiguous tensor; PyTorch's own has neither a batching rule nor all gradients."""
    places = torch.arange(whole.numel(), device=whole.device).as_strided(size, stride, offset).reshape(-1)
    return whole.reshape(-1).index_copy(0, places, part.reshape(-1)).reshape(whole.shape)


def _one_term(op: Op, present: Mapping[Slot, Tensor]) -> Tensor:
    """A sum of which one term is present: that term, with its sign and factor."""
    (slot, part), alpha = next(iter(present.items())), float(op.kwargs.get("alpha", 1))
    if len(op.args) > 2 and isinstance(op.args[2], (int, float)):
        alpha = float(op.args[2])
    first = slot is op.args[0]
    factor = {"add": (1.0, alpha), "sub": (1.0, -alpha), "rsub": (-alpha, 1.0)}[op.name][0 if first else 1]
    part = part if factor == 1.0 else part * factor
    return part if part.shape == op.shape else part.expand(op.shape)


def _norm(op: Op, present: Mapping[Slot, Tensor]) -> Tensor:
    """A norm with its scale held: linear in its input, and its β a part of its own."""
    made: Tensor | None = None
    weight = op.args[2]
    for slot, part in present.items():  # its input first
        if slot is not op.args[0]:
            made = part.expand(op.shape) if made is None else made + part
            continue
        if op.name == "native_layer_norm":
            part = part - part.mean(tuple(range(-len(op.args[1]), 0)), keepdim=True)
        assert op.scale is not None
        factor = _held(op.scale, part)
        if isinstance(weight, Slot) and weight.value is not None:
            factor = factor * _held(weight.value, part)  # one product for all parts, which are many
        made = part * factor
    assert made is not None
    return made


def _matrix(op: Op, present: Mapping[Slot, Tensor], columns: Columns) -> Tensor:
    """A product with a held matrix; only the wanted columns of it where they are few."""
    added = op.name in ("addmm", "baddbmm", "addmv")
    total: Tensor | None = None
    if added and op.args[0] in present:
        total = present[op.args[0]].expand(op.shape)
    left, right = op.args[1:3] if added else op.args[:2]
    inner = left if left in present else right if right in present else None
    if inner is None:
        assert total is not None
        return total
    other = right if inner is left else left
    assert other.value is not None
    part, held = present[inner], _held(other.value, present[inner])
    wanted = columns.get(op)
    if wanted is not None and inner is left and held.ndim == 2:
        made = _some_columns(part, held, wanted)
    else:
        made = part @ held if inner is left else held @ part
    return made if total is None else total + made


def _some_columns(part: Tensor, held: Tensor, wanted: Tensor) -> Tensor:
    """A product with some columns of a matrix, the others zero."""
    first, width = int(wanted[0]) if len(wanted) else 0, held.shape[1]
    if len(wanted) and int(wanted[-1]) - first + 1 == len(wanted):  # one head's columns, side by side
        return pad(part @ held[:, first : first + len(wanted)], (first, width - first - len(wanted)))
    narrow = part @ held[:, wanted]
    return narrow.new_zeros(*narrow.shape[:-1], width).index_copy(-1, wanted, narrow)


@own_precision()
@torch.enable_grad()
def columns_of(route: Route, wanted: Callable[[Op, Tensor], Tensor | None]) -> Columns:
    """For each matrix on the route, the columns of its output on which the wanted part of the target depends.

    ``wanted`` says what that part is for an output of the matrix: with norms held, or computed again.
    """
    found: dict[Op, Tensor] = {}
    for op in route.matrices():
        if len(op.shape) != 2:
            continue
        trial = torch.ones(op.shape, device=_device(op), dtype=torch.float32)
        trial = trial + 0.37 * torch.rand(op.shape, generator=torch.Generator().manual_seed(0)).to(trial)
        part = wanted(op, trial.requires_grad_())
        if part is None or not part.requires_grad:
            continue
        weights = 1 + torch.rand(part.shape, generator=torch.Generator().manual_seed(1)).to(part)
        (gradient,) = torch.autograd.grad((part * weights).sum(), trial)
        reached = gradient.abs().sum(0).nonzero()[:, 0]
        if len(reached) * 2 <= op.shape[-1]:
            found[op] = reached
    return found


def _device(op: Op) -> torch.device:
    return next((slot.value.device for slot in op.slots if slot.value is not None), torch.device("cpu"))


def source_device(source: SourceNode) -> torch.device:
    """Return the device that holds what was written."""
    held = source.value if source.heads is None else source.heads.x
    assert held is not None
    return held.device


def source_parts(source: SourceNode, heads: Iterable[int] | None = None) -> Tensor:
    """A source as parts along a first axis: one, or its heads and, last, the bias of W_O."""
    if source.heads is None:
        assert source.value is not None
        return source.value.to(wide(source.value.dtype))[None] if not source.value.is_complex() else source.value[None]
    output = source.heads
    dtype = wide(output.x.dtype)
    chosen = list(range(output.n_heads) if heads is None else heads)
    x = output.x.reshape(-1, output.n_heads, output.weight.shape[1])[:, chosen].transpose(0, 1).to(dtype)
    return torch.bmm(x, output.weight[chosen].to(dtype)).reshape(len(chosen), *source.shape)


def part_of(source: SourceNode, part: int | None) -> Tensor:
    """A source as one writer has it, along a first axis of one: the whole, a head, or (−1) the bias of W_O."""
    if part is None or part >= 0:
        return source_parts(source, None if part is None else [part])
    assert source.heads is not None
    assert source.heads.bias is not None
    return source.heads.bias.to(wide(source.heads.bias.dtype)).expand(source.shape)[None]


def recompute(target: Node, replaced: Mapping[Node, Tensor], columns: Columns | None = None) -> Tensor:
    """The true value of a node when others have new values: norms and gates are computed again.

    With ``columns``, only those of each matrix's output are computed; the others are zero.
    """
    values: dict[Node, Tensor] = dict(replaced)
    waiting = [target]
    while waiting:  # in order, so that long chains do not recurse
        node = waiting[-1]
        needed = [each for each in _inputs(node) if each not in values] if node not in values else []
        waiting += needed
        if needed:
            continue
        if node not in values:
            made = (
                _source_value(node, values) if isinstance(node, SourceNode) else _op_value(node, values, columns or {})
            )
            values[node] = made
        waiting.pop()
    return values[target]


def _inputs(node: Node) -> list[Node]:
    if isinstance(node, SourceNode):
        return [] if node.origin is None else [node.origin]
    assert isinstance(node, Op)
    return [slot.node for slot in node.slots if slot.node is not None]


def _source_value(node: SourceNode, values: Mapping[Node, Tensor]) -> Tensor:
    if node.origin is not None:
        return values[node.origin]
    if node.heads is None:
        assert node.value is not None
        return node.value
    made = source_parts(node).sum(0).to(node.heads.x.dtype)
    return made if node.heads.bias is None else made + node.heads.bias


def _given(arg: Any, values: Mapping[Node, Tensor]) -> Any:
    if isinstance(arg, (tuple, list)):
        return type(arg)(_given(each, values) for each in arg)
    if not isinstance(arg, Slot):
        return arg
    if arg.node is not None:
        return values[arg.node]
    return torch.zeros(arg.shape) if arg.value is None else arg.value


def _op_value(node: Node, values: Mapping[Node, Tensor], columns: Columns) -> Tensor:
    assert isinstance(node, Op)
    args = tuple(_given(arg, values) for arg in node.args)
    if node.name == "as_strided_scatter":
        return _scatter(*args)
    if node.name == "copy":
        copied: Tensor = args[1].expand(node.shape)
        return copied
    if node.name in ("view", "_unsafe_view"):
        viewed: Tensor = args[0].reshape(node.shape)
        return viewed
    wanted = columns.get(node)
    if wanted is not None and node.name in ("mm", "addmm"):
        *added, x, weight = args[:3] if node.name == "addmm" else args[:2]
        narrow = x @ weight[:, wanted] + (added[0][..., wanted] if added else 0.0)
        some: Tensor = narrow.new_zeros(node.shape).index_copy(-1, wanted, narrow)
        return some
    made: Any = node.func(*args, **node.kwargs)
    found: Tensor = made if node.out is None else made[node.out]
    return found
