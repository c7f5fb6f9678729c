"""Split a row of attention scores over pairs of a writer at the query and a writer at the key.

With the norms' scales held, q·k is a sum over such pairs. A softmax sees differences of scores, so a split is relative
to the row's mean over visible keys, to another key, or to the other keys weighted by the pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import pattern
from headscope.attention.progress import report_progress
from headscope.errors import InputError, ModelError
from headscope.heads.explain.why import Place, Read, Share, Why
from headscope.models.structure.carry import Columns, Replaced, Route, columns_of, part_of
from headscope.models.structure.recorder import RecordedStream, Side, Writer
from headscope.models.structure.tape import Op, Slot, SourceNode
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

DISTANCE, CAP = "distance", "cap"
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}  # families cast norms to float32, in float64 models too
ARROWS = 64  # of a row, whose pairs are held at once
HALF_TOLERANCE = 3e-2  # q and k are rounded to about three digits, and their writers are not
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
        rows: dict[int, Tensor] = {}
        jobs: dict[SourceNode, list[tuple[int, int | None]]] = {}
        for row, writer in enumerate(chosen):
            for source, part in writer.sources:
                jobs.setdefault(source, []).append((row, part))
        for done, (source, wanted) in enumerate(jobs.items()):
            report_progress("following what was written", done, len(jobs))
            step = max(1, CHUNK // max(source.shape.numel(), self.route.target.shape.numel(), 1))
            for start in range(0, len(wanted), step):
                some = wanted[start : start + step]
                stack = torch.cat([part_of(source, part) for _, part in some])
                made = self.route.carry_all(source, stack, self.columns, replaced)
                for (row, _), own in zip(
                    some, () if made is None else self._own(made).clone(), strict=made is not None
                ):
                    rows[row] = rows[row] + own if row in rows else own
        shape = self.route.target.shape
        empty = torch.zeros(shape[2], shape[3], dtype=next((row.dtype for row in rows.values()), torch.float32))
        return SideParts(chosen, torch.stack([rows.get(row, empty) for row in range(len(chosen))]))

    def _own(self, whole: Tensor) -> Tensor:
        return whole[..., 0, self.head, :, :]

    def _held(self, op: Op, trial: Tensor) -> Tensor | None:
        made = self.route.carry(op, trial)
        return None if made is None else self._own(made)


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


class SplitScores:
    """One head's scores, ready to be split: the writers' parts of q and k at every position."""

    def __init__(self, stream: RecordedStream, head: Head, kv_head: int, source: pattern.PatternSource) -> None:
        """``source`` is this head's own q, k and scores."""
        self.head, self.source = head, source
        self.n_query, self.n_key = source.q.shape[2], source.k.shape[2]
        self._keys = Reading(stream, head.site, "k", kv_head)
        with torch.no_grad():
            self.q: SideParts = Reading(stream, head.site, "q", head.head).parts()
            self.k: SideParts = self._keys.parts()
        self._rotations = rotations(self._keys.route, self.n_key)
        self._moved: tuple[tuple[int, ...], Tensor] | None = None
        self.check()

    @property
    def scale(self) -> float:
        return float(self.source.scores.scale or 1.0)

    def check(self) -> None:
        """Refuse a split whose parts do not add up to the q and k that the model computed."""
        for name, side, own in (("q", self.q, self.source.q), ("k", self.k, self.source.k)):
            gap = (side.parts.sum(0) - own[0, 0].to(side.parts)).abs().max()
            size = side.parts.abs().sum(0).max().clamp(min=1e-30)
            if not float(gap / size) <= self.tolerance:
                raise ModelError(
                    f"cannot split the scores of {self.head}: the recorded contributions do not add up to its {name} ("
                    f"relative error {float(gap / size):.1e}, allowed {self.tolerance:.0e}); patterns and ablation are "
                    "not affected"
                )

    @property
    def tolerance(self) -> float:
        return TOLERANCE.get(self.source.q.dtype, HALF_TOLERANCE)

    def row(self, query: int) -> ScoreRow:
        """The scores of one query row."""
        rows = torch.tensor([query], device=self.source.q.device)
        columns = torch.arange(self.n_key, device=self.source.q.device)
        source, offset = self.source, self.n_key - self.n_query
        block = source.scores.block(source.q[:, :, rows], source.k, rows, columns, offset)[0, 0, 0]
        visible = (~block.isneginf()).nonzero()[:, 0]
        raw = (source.k[0, 0].double() @ source.q[0, 0, query].double()) * self.scale
        cap, bias = source.scores.softcap, torch.zeros_like(raw)
        if source.scores.bias is not None and not isinstance(source.scores.bias, Tensor):
            bias = source.scores.bias.block(rows, columns, offset)[0, 0, 0].double()
        scores = (raw if cap is None else torch.tanh(raw / cap) * cap) + bias
        weights = pattern.weights(source, rows, columns)[0, 0, 0].double()
        return ScoreRow(visible, scores, raw, bias, weights)

    def rounding(self, query: int) -> Float[Tensor, " key"]:
        """How far rounding of q and k in the model's precision can move each score of a row."""
        eps = torch.finfo(self.source.q.dtype).eps
        sizes = self.source.k[0, 0].double().abs() @ self.source.q[0, 0, query].double().abs()
        return 8 * eps * self.scale * sizes

    def position_keys(self, visible: Tensor) -> Float[Tensor, "writer key d_head"] | None:
        """The keys' parts, rotated as on the mean over the offsets of these keys; None where nothing is rotated."""
        if not self._rotations:
            return None
        name = tuple(visible.tolist())
        if self._moved is None or self._moved[0] != name:
            with torch.no_grad():
                parts = self._keys.parts(replaced=averaged(self._rotations, visible)).parts
            self._moved = (name, parts)
        return self._moved[1]


@dataclass(frozen=True)
class ScoreRow:
    """Scores of one query row: visible keys, final scores, q·k alone, the additive bias, and the pattern."""

    visible: Tensor
    scores: Tensor
    raw: Tensor
    bias: Tensor
    weights: Tensor

    def baselines(self, keys: Sequence[int], minus: int | str | None) -> tuple[Float[Tensor, "baseline key"], str]:
        """Weights over the keys that each is compared with, once where they are the same for all; their name."""
        weights = torch.zeros(len(keys) if minus == "others" else 1, len(self.raw)).to(self.raw)
        if minus is None:
            weights[:, self.visible] = 1.0 / len(self.visible)
            return weights, "mean"
        if minus == "others":  # in the pattern itself they underflow beside a key with nearly all of the weight
            others = self.scores.where(torch.isin(torch.arange(len(self.raw)), self.visible), -torch.inf)
            others = others.repeat(len(keys), 1)
            others[range(len(keys)), list(keys)] = -torch.inf
            return others.softmax(1).nan_to_num(0.0).to(weights), "others"
        weights[:, int(minus)] = 1.0
        return weights, str(int(minus))


def split_row(scores: SplitScores, query: int, keys: Sequence[int], minus: int | str | None, look: Look) -> list[Why]:
    """Split the scores of some keys of one row."""
    row = scores.row(query)
    visible = set(row.visible.tolist())
    hidden = [key for key in keys if key not in visible]
    if hidden or (isinstance(minus, int) and minus not in visible):
        unseen = hidden[0] if hidden else minus
        raise InputError(
            f"{scores.head} at query {query} does not see key {unseen}: it comes later, or the mask hides it; visible "
            f"keys are {_ranges(sorted(visible))}"
        )
    return RowSplit(scores, row, query, keys, minus, _Reads(look, scores)).arrows() if keys else []


class RowSplit:
    """Some arrows of one row: their totals are computed together, the pairs and shares of each when they are read."""

    def __init__(
        self,
        scores: SplitScores,
        row: ScoreRow,
        query: int,
        keys: Sequence[int],
        minus: int | str | None,
        reads: _Reads,
    ) -> None:
        self.scores, self.row, self.query, self.keys, self.reads = scores, row, query, tuple(keys), reads
        self._q = scores.q.parts[:, query].double() * scores.scale
        self._against, self._called = row.baselines(self.keys, minus)
        self._means = torch.stack([self._against @ part.double() for part in scores.k.parts])
        self._terms = self._all_terms()
        self.asked, self.answered, self._sizes = self._sums()

    def pairs(self, index: int) -> Float[Tensor, "asked answered"]:
        """What each writer at the query and each at the key give together to one of the arrows."""
        return self._q @ self._relative([index])[:, 0].T

    def position_pairs(self, index: int) -> Float[Tensor, "asked answered"] | None:
        """Return the part of these pairs that depends on the offset, beyond the mean over the row's offsets."""
        moved, key = self.scores.position_keys(self.row.visible), self.keys[index]
        return None if moved is None else self._q @ (self.scores.k.parts[:, key] - moved[:, key]).double().T

    def shares(self, index: int) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
        """The sums of the pairs per writer at the query and per writer at the key."""
        moved, (q, k) = self.position_pairs(index), (self.scores.q.writers, self.scores.k.writers)
        by_query, by_key = (None, None) if moved is None else (moved.sum(1), moved.sum(0))
        return (
            self.reads.shares(q, self.asked[index], by_query, self.query, 0),
            self.reads.shares(k, self.answered[index], by_key, self.keys[index], 1),
        )

    def arrows(self) -> list[Why]:
        """Every arrow, its sum compared with the score that the model computed."""
        scores, row = self.scores, self.row
        keys = list(self.keys)
        bases = (self._against[:, row.visible] @ row.scores[row.visible]).expand(len(keys))
        totals = self.asked.sum(1) + sum(self._terms.values())
        gaps = (totals - (row.scores[keys] - bases)).abs()
        rounding = scores.rounding(self.query)
        allowed = torch.maximum(scores.tolerance * self._sizes, rounding[keys] + self._against @ rounding)
        for key, gap, size, most, total, base in zip(keys, gaps, self._sizes, allowed, totals, bases, strict=True):
            if not gap <= most:
                raise ModelError(
                    f"{scores.head}: its pairs add up to {float(total):.6g}, its score relative to the others is "
                    f"{float(row.scores[key] - base):.6g} (error {float(gap / size):.1e}), so it cannot be split"
                )
        errors, weights = (gaps / self._sizes.clamp(min=1e-30)).tolist(), row.weights[keys].tolist()
        numbers = zip(keys, weights, row.scores[keys].tolist(), bases.tolist(), errors, strict=True)
        return [self._arrow(index, *each) for index, each in enumerate(numbers)]

    def _arrow(self, index: int, key: int, weight: float, score: float, base: float, error: float) -> Why:
        row, reads = self.row, self.reads
        terms = {name: float(values[index]) for name, values in self._terms.items()}
        moved = float(row.bias[key] - row.bias[row.visible].mean()) if DISTANCE in terms else 0.0
        return Why(
            self.scores.head, reads.group, reads.place(self.query, 0), reads.place(key, 1), weight, score, base,
            self._called, len(row.visible), reads.sink(row), terms, error, moved, (self, index),
        )  # fmt: skip

    def _relative(self, indices: Sequence[int]) -> Float[Tensor, "writer arrow d_head"]:
        """Each writer's part of some keys, minus its part of what they are compared with."""
        keys = [self.keys[index] for index in indices]
        means = self._means if self._means.shape[1] == 1 else self._means[:, list(indices)]
        return self.scores.k.parts[:, keys] - means

    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sums of the pairs of each arrow, per writer at the query and at the key, and the sum of their sizes."""
        by_query, by_key, sizes = [], [], []
        for start in range(0, len(self.keys), ARROWS):
            parts = self._relative(range(start, min(start + ARROWS, len(self.keys))))
            pairs = torch.einsum("ad,bnd->nab", self._q, parts)
            by_query.append(pairs.sum(2))
            by_key.append(pairs.sum(1))
            sizes.append(pairs.abs().sum((1, 2)))
        written = sum((values.abs() for values in self._terms.values()), torch.zeros(len(self.keys)).to(self._q))
        return torch.cat(by_query), torch.cat(by_key), torch.cat(sizes) + written

    def _all_terms(self) -> dict[str, Tensor]:
        """What is not of any pair, per arrow."""
        rules, row, found = self.scores.source.scores, self.row, {}
        if rules.bias is not None:
            found[DISTANCE] = row.bias
        if rules.softcap is not None:
            found[CAP] = row.scores - row.bias - row.raw
        against = self._against[:, row.visible]
        return {name: values[list(self.keys)] - against @ values[row.visible] for name, values in found.items()}


class _Reads:
    """Names of places, and what writers that are heads read there."""

    def __init__(self, look: Look, scores: SplitScores) -> None:
        self.look, self.site = look, look.shape.sites[scores.head.site]
        self.group = tuple(self.site.group(scores.head.head))
        self.sides = (look.query_tokens(self.site.name), look.key_tokens(self.site.name))
        self.has_sink = scores.source.scores.sinks is not None
        self._strongest: dict[tuple[str, int], tuple[list[Place], list[int], list[float]]] = {}

    def place(self, position: int, side: int) -> Place:
        return Place(position, self.sides[side][position].text)

    def sink(self, row: ScoreRow) -> float | None:
        return max(0.0, 1.0 - float(row.weights.sum())) if self.has_sink else None

    def shares(
        self, writers: Sequence[Writer], values: Tensor, position: Tensor | None, at: int, side: int
    ) -> tuple[Share, ...]:
        moved = [0.0] * len(writers) if position is None else position.tolist()
        return tuple(
            Share(writer.name, writer.kind, value, part, self._read(writer, at, side))
            for writer, value, part in zip(writers, values.tolist(), moved, strict=True)
        )

    def _read(self, writer: Writer, at: int, side: int) -> Read | None:
        """The strongest key of a head at the place where it wrote, if that is a place of the same text."""
        if writer.kind != "head":
            return None
        if (writer.name, side) not in self._strongest:
            self._strongest[writer.name, side] = self._reads(Head.parse(writer.name), side)
        places, keys, weights = self._strongest[writer.name, side]
        return None if at >= len(keys) or keys[at] < 0 else Read(places[keys[at]], weights[at])

    def _reads(self, head: Head, side: int) -> tuple[list[Place], list[int], list[float]]:
        """The places a head can read, and which it reads most at each place; none where that is another text."""
        if head.site not in self.look.sites or self.look.query_tokens(head.site) is not self.sides[side]:
            return [], [], []
        strongest = self.look.statistics(head.site).strongest
        if strongest is None:
            return [], [], []
        places = [Place(position, token.text) for position, token in enumerate(self.look.key_tokens(head.site))]
        return places, strongest.key[0, head.head].tolist(), strongest.weight[0, head.head].tolist()


def _ranges(keys: list[int]) -> str:
    if not keys:
        return "none"
    return f"{keys[0]}–{keys[-1]}" if keys[-1] - keys[0] + 1 == len(keys) else ", ".join(map(str, keys[:12]))
