"""Split q and k of one head over the writers of the residual stream: the parts that add up to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.models.structure.carry import Columns, Replaced, Route, columns_of, source_parts, wide
from headscope.models.structure.tape import Op, Slot
from headscope.models.structure.writers import RecordedStream, Side, Writer

CHUNK = 2**25  # numbers of parts that are carried at once


@dataclass(frozen=True)
class SideParts:
    """One side of a head: what each writer gives its q, k or v at every position. Summed over writers, it is that."""

    writers: tuple[Writer, ...]
    parts: Float[Tensor, "writer position d_head"]


class Reading:
    """How one head's q, k or v came about: the route from the writers, and the columns of its matrices."""

    def __init__(self, stream: RecordedStream, site: str, side: Side, head: int) -> None:
        """``head`` counts query heads for q, KV heads for k and v."""
        self.head = head
        self.route = Route(stream.node(site, side))
        self.writers = tuple(stream.writers(self.route, site))
        self.columns: Columns = columns_of(self.route, self._held)

    def parts(self, writers: Sequence[Writer] | None = None, replaced: Replaced | None = None) -> SideParts:
        """Carry writers to this head, a few at a time."""
        chosen = tuple(self.writers if writers is None else writers)
        rows: list[Tensor | None] = [None] * len(chosen)
        jobs: dict[int, list[tuple[int, Writer, int]]] = {}
        for row, writer in enumerate(chosen):
            for place, (source, _) in enumerate(writer.sources):
                jobs.setdefault(id(source), []).append((row, writer, place))
        for done, wanted in enumerate(jobs.values()):
            report_progress("following what was written", done, len(jobs))
            for row, made in self._carried(wanted, replaced):
                before = rows[row]
                rows[row] = made if before is None else before + made
        shape = self.route.target.shape
        empty = torch.zeros(shape[2], shape[3], dtype=next((r.dtype for r in rows if r is not None), torch.float32))
        return SideParts(chosen, torch.stack([empty if row is None else row for row in rows]))

    def _own(self, whole: Tensor) -> Tensor:
        return whole[..., 0, self.head, :, :]

    def _held(self, op: Op, trial: Tensor) -> Tensor | None:
        made = self.route.carry(op, trial)
        return None if made is None else self._own(made)

    def _carried(self, wanted: list[tuple[int, Writer, int]], replaced: Replaced | None) -> list[tuple[int, Tensor]]:
        """The parts of one source, chunk by chunk."""
        source = wanted[0][1].sources[wanted[0][2]][0]
        numbers = max(source.shape.numel(), self.route.target.shape.numel(), 1)
        step, found = max(1, CHUNK // numbers), []
        for start in range(0, len(wanted), step):
            some = wanted[start : start + step]
            indices = [writer.sources[place][1] for _, writer, place in some]
            heads = [index for index in indices if index is not None and index >= 0]
            stack = []
            if heads:
                stack.append(source_parts(source, heads))
            if None in indices:
                stack.append(source_parts(source))
            if -1 in indices and source.heads is not None and source.heads.bias is not None:
                bias = source.heads.bias.to(wide(source.heads.bias.dtype))
                stack.append(bias.expand(source.shape)[None])
            made = self.route.carry_all(source, torch.cat(stack), self.columns, replaced)
            if made is not None:
                ordered = sorted(some, key=lambda job: (job[1].sources[job[2]][1] or 0) == -1)
                own = self._own(made).clone()
                found += [(row, own[place]) for place, (row, _, _) in enumerate(ordered)]
        return found


def rotations(route: Route, length: int) -> dict[int, tuple[Tensor, int]]:
    """Held factors that differ by position and not by text (cos and sin of RoPE), with the axis of the position."""
    found: dict[int, tuple[Tensor, int]] = {}
    for op in route.ops:
        if op.name != "mul" or not op.in_site:
            continue
        for slot in op.slots:
            if not slot.carried and slot.value is not None and (axis := _position_axis(op, slot, length)) is not None:
                found[id(slot.value)] = (slot.value, axis)
    return found


def _position_axis(op: Op, slot: Slot, length: int) -> int | None:
    """The axis of a constant factor that has the text's length and along which it differs."""
    value = slot.value
    if value is None or (slot.node is not None and slot.node.dynamic) or value.ndim < 2:
        return None
    axes = [axis for axis in range(value.ndim - 1) if value.shape[axis] == length]
    if len(axes) != 1 or length < 2:
        return None
    first = value.narrow(axes[0], 0, 1)
    return None if torch.equal(first.expand_as(value), value) else axes[0]


def averaged(found: dict[int, tuple[Tensor, int]], keys: Tensor) -> Replaced:
    """The same factors at every position: their mean over these keys."""
    mean = partial(torch.mean, keepdim=True)
    return {
        name: mean(value.index_select(axis, keys), dim=axis).expand_as(value) for name, (value, axis) in found.items()
    }
