"""Split a row of attention scores over pairs of a writer at the query and a writer at the key.

With the norms' scales held, q·k is a sum over such pairs. A softmax sees differences of scores, so a split is relative
to the row's mean over visible keys, to another key, or to the other keys weighted by the pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention import pattern
from headscope.errors import InputError, ModelError
from headscope.heads.explain.score_parts import Reading, SideParts, averaged, rotations
from headscope.heads.explain.why import Place, Read, Share, Why
from headscope.models.structure.writers import RecordedStream, Writer
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

DISTANCE, CAP = "distance", "cap"
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}  # families cast norms to float32, in float64 models too
HALF_TOLERANCE = 3e-2  # q and k are rounded to about three digits, and their writers are not


class HeadScores:
    """One head's scores, ready to be split: the writers' parts of q and k at every position."""

    def __init__(self, stream: RecordedStream, head: Head, kv_head: int, source: pattern.Source) -> None:
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
                    f"{self.head}: what was written into the stream does not add up to its {name} (error "
                    f"{float(gap / size):.1e}, allowed {self.tolerance:.0e}), so its scores cannot be split; patterns, "
                    "ablation and all else work as before"
                )

    @property
    def tolerance(self) -> float:
        return TOLERANCE.get(self.source.q.dtype, HALF_TOLERANCE)

    def row(self, query: int) -> Row:
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
        return Row(visible, scores, raw, bias, weights)

    def mean_keys(self, against: Float[Tensor, " key"]) -> Float[Tensor, "writer d_head"]:
        """Each writer's part of the keys, averaged with these weights."""
        return torch.stack([against @ part.double() for part in self.k.parts])

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
class Row:
    """Scores of one query row: visible keys, final scores, q·k alone, the additive bias, and the pattern."""

    visible: Tensor
    scores: Tensor
    raw: Tensor
    bias: Tensor
    weights: Tensor

    def baseline(self, key: int, minus: int | str | None) -> tuple[Tensor, str]:
        """Weights over the keys that a key is compared with, and what they are called."""
        weights = torch.zeros_like(self.raw)
        if minus is None:
            weights[self.visible] = 1.0 / len(self.visible)
            return weights, "mean"
        if minus == "others":
            weights[self.visible] = self.weights[self.visible]
            weights[key] = 0.0
            total = weights.sum()
            return (weights / total if total > 0 else weights), "others"
        weights[int(minus)] = 1.0
        return weights, str(int(minus))


def split_row(scores: HeadScores, query: int, keys: Sequence[int], minus: int | str | None, look: Look) -> list[Why]:
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
    shared = _Shared(
        scores.position_keys(row.visible),
        _Reads(look, scores),
        None if minus == "others" or not keys else scores.mean_keys(row.baseline(keys[0], minus)[0]),
        scores.rounding(query),
        scores.q.parts[:, query].double() * scores.scale,
    )
    return [_split(scores, row, query, key, minus, shared) for key in keys]


@dataclass(frozen=True)
class _Shared:
    """What the arrows of a row share."""

    moved: Tensor | None
    """The keys' parts at a mean offset."""
    reads: _Reads
    mean: Tensor | None
    """What keys are compared with, where it is the same for all."""
    rounding: Tensor
    q: Tensor


def _split(scores: HeadScores, row: Row, query: int, key: int, minus: int | str | None, shared: _Shared) -> Why:
    moved, reads, q, rounding = shared.moved, shared.reads, shared.q, shared.rounding
    against, called = row.baseline(key, minus)
    mean = scores.mean_keys(against) if shared.mean is None else shared.mean
    pairs = q @ (scores.k.parts[:, key] - mean).T
    position = None if moved is None else q @ (scores.k.parts[:, key] - moved[:, key]).double().T
    terms = {}
    if scores.source.scores.bias is not None:
        terms[DISTANCE] = float(row.bias[key] - against[row.visible] @ row.bias[row.visible])
    if scores.source.scores.softcap is not None:
        capped = row.scores - row.bias - row.raw
        terms[CAP] = float(capped[key] - against[row.visible] @ capped[row.visible])
    base = float(against[row.visible] @ row.scores[row.visible])
    total = float(pairs.sum()) + sum(terms.values())
    size = float(pairs.abs().sum()) + sum(map(abs, terms.values()))
    error = abs(total - (float(row.scores[key]) - base)) / max(size, 1e-30)
    if not error * size <= max(scores.tolerance * size, float(rounding[key] + against @ rounding)):
        raise ModelError(
            f"{scores.head}: its pairs add up to {total:.6g}, its score relative to the others is "
            f"{float(row.scores[key]) - base:.6g} (error {error:.1e}), so it cannot be split"
        )
    seen = row.bias[row.visible]
    return Why(
        scores.head, reads.group, reads.place(query, 0), reads.place(key, 1), float(row.weights[key]),
        float(row.scores[key]), base, called, len(row.visible), reads.sink(row),
        reads.shares(scores.q.writers, pairs.sum(1), None if position is None else position.sum(1), query, 0),
        reads.shares(scores.k.writers, pairs.sum(0), None if position is None else position.sum(0), key, 1),
        terms, pairs, position, error, float(row.bias[key] - seen.mean()) if DISTANCE in terms else 0.0,
    )  # fmt: skip


class _Reads:
    """Names of places, and what writers that are heads read there."""

    def __init__(self, look: Look, scores: HeadScores) -> None:
        self.look, self.site = look, look.shape.sites[scores.head.site]
        first = scores.head.head // self.site.group_size * self.site.group_size
        self.group = tuple(Head(self.site.name, first + index) for index in range(self.site.group_size))
        self.sides = (look.query_tokens(self.site.name), look.key_tokens(self.site.name))
        self.has_sink = scores.source.scores.sinks is not None
        self._heads: dict[str, Head] = {}
        self._strongest: dict[tuple[str, int, int], list[Read | None]] = {}

    def place(self, position: int, side: int) -> Place:
        return Place(position, self.sides[side][position].text)

    def sink(self, row: Row) -> float | None:
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
        if writer.name not in self._heads:
            self._heads[writer.name] = Head.parse(writer.name)
        head = self._heads[writer.name]
        place = head.site, at, side
        if place not in self._strongest:
            self._strongest[place] = self._reads(*place)
        return self._strongest[place][head.head] if self._strongest[place] else None

    def _reads(self, site: str, at: int, side: int) -> list[Read | None]:
        """What each head of a site reads most at a place; none where that is a place of another text."""
        if site not in self.look.sites or self.look.query_tokens(site) is not self.sides[side]:
            return []
        strongest = self.look.statistics(site).strongest
        if strongest is None or at >= strongest.key.shape[2]:
            return []
        tokens = self.look.key_tokens(site)
        pairs = zip(strongest.key[0, :, at].tolist(), strongest.weight[0, :, at].tolist(), strict=True)
        return [None if key < 0 else Read(Place(key, tokens[key].text), weight) for key, weight in pairs]


def _ranges(keys: list[int]) -> str:
    if not keys:
        return "none"
    return f"{keys[0]}–{keys[-1]}" if keys[-1] - keys[0] + 1 == len(keys) else ", ".join(map(str, keys[:12]))
