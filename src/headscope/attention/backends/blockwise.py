"""The blockwise backend: exact statistics in plain PyTorch on any device, in O(T) memory, a band of rows at a time.

Whole rows need no running maximum, and a band is small enough to stay in the CPU's cache. Keys are padded to tiles of
64. Distances are summed relative to the middle of their tile, where float32 is exact enough at any length, and the
tiles are merged afterwards. Scores are in base 2, because exp2 is the cheapest exponential.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observation import Distance, PerRow, Rows, Statistic, Strongest
from headscope.attention.progress import pause_point
from headscope.attention.questions import Band, Match, Plan, Question, matches, plan
from headscope.attention.scores import Scores

TILE = 64
ROWS = 128
BAND = {"cpu": 2**19, "cuda": 2**26}  # scores stored at once; on a CPU, what fits its cache
KEPT = 2**20  # scores of a text whose matches are kept from layer to layer
MASKED = -1e30  # a finite −∞: 0 · MASKED is 0 and not NaN


def refuse(_q: Tensor, _k: Tensor, _v: Tensor, _scores: Scores) -> str | None:
    """Return why this backend cannot run the request: it can run all."""
    return None


def observe(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    questions: Mapping[str, Question],
    statistics: Set[Statistic],
) -> Rows:
    """Compute every statistic, one band of rows after the other. ``scores`` is bound."""
    inputs = _Inputs.prepare(q, k, v, scores)
    sums = _Sums.empty(inputs, questions, statistics)
    find = partial(_matches, questions, {name: plan(question, q.device) for name, question in questions.items()})
    keep = q.shape[2] * k.shape[2] <= KEPT
    for band in inputs.bands():
        pause_point()
        mask = inputs.additive_mask(band)
        for item in range(q.shape[0]):
            found = find(band, item, inputs.q.dtype, keep=keep)
            for kv in inputs.kv_heads(band):
                block = _Block(item, kv, band)
                powers = _observe_block(inputs, block, mask, sums)
                for match in found:
                    for name, mass in match.masses(powers).items():
                        sums.mass[name][inputs.at(block)] = mass
    return _finish(inputs, sums, v.dtype)


def _matches(
    questions: Mapping[str, Question],
    plans: Mapping[str, Plan],
    band: Band,
    item: int,
    dtype: torch.dtype,
    *,
    keep: bool,
) -> list[Match]:
    """Find what counts in a band; a short text's is kept with the first question, as every layer asks the same."""
    if not (keep and questions):
        return matches(plans, band, item, dtype)
    about = (tuple(map(id, plans.values())), band, item, dtype)  # plans are kept too, so that their ids stay theirs
    return next(iter(questions.values())).cached(about, lambda: (plans, matches(plans, band, item, dtype)))[1]


class _Block(NamedTuple):
    """One band of one batch item, for the heads that these KV heads serve."""

    item: int
    kv: slice
    band: Band


@dataclass(frozen=True)
class _Inputs:
    """The inputs in float32 or better, q scaled, keys padded to whole tiles, and buffers for one band."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv padded d_head"]
    v: Float[Tensor, "batch kv padded d_value"]
    scores: Scores
    n_key: int
    buffers: tuple[Tensor, Tensor]

    @classmethod
    def prepare(cls, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> _Inputs:
        assert scores.scale is not None
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        pad = -k.shape[2] % TILE
        size = max(BAND.get(q.device.type, 2**22), q.shape[1] // k.shape[1] * (k.shape[2] + pad))
        buffers = (torch.empty(size, dtype=wide, device=q.device), torch.empty(size, dtype=wide, device=q.device))
        factor = scores.scale if scores.softcap is None else scores.scale / scores.softcap
        base = math.log2(math.e) if scores.softcap is None else 1.0
        n_key = k.shape[2]
        k, v = (F.pad(t.detach().to(wide), (0, 0, 0, pad)) if pad else t.detach().to(wide) for t in (k, v))
        return cls(q.detach().to(wide) * (factor * base), k, v, scores, n_key, buffers)

    @property
    def n_query(self) -> int:
        return self.q.shape[2]

    @property
    def group(self) -> int:
        return self.q.shape[1] // self.k.shape[1]

    def at(self, block: _Block) -> tuple[int, slice, slice]:
        """The index of a block in ``[batch, head, query]``."""
        heads = slice(block.kv.start * self.group, block.kv.stop * self.group)
        return block.item, heads, slice(block.band.start, block.band.stop)

    def bands(self) -> Iterator[Band]:
        """Bands of rows that fit the buffers, with the tiles of keys that they can attend to."""
        start, offset = 0, self.n_key - self.n_query
        capacity = len(self.buffers[0]) // self.group
        while start < self.n_query:
            stop = min(self.n_query, start + max(1, min(ROWS, capacity // self.k.shape[2])))
            low, high = self.scores.mask.visible_to_any(start, stop, offset, self.n_key)
            low = low // TILE * TILE
            yield Band(start, stop, low, max(high + -high % TILE, low + TILE), offset)
            start = stop

    def kv_heads(self, band: Band) -> Iterator[slice]:
        """Groups of KV heads, each as large as fits the buffers."""
        size = self.group * (band.stop - band.start) * (band.high - band.low)
        at_once, n_kv_heads = max(1, len(self.buffers[0]) // size), self.k.shape[1]
        for first in range(0, n_kv_heads, at_once):
            yield slice(first, min(first + at_once, n_kv_heads))

    def additive_mask(self, band: Band) -> list[tuple[slice, Tensor]]:
        """MASKED or 0 to add to the scores, for those columns that some row of the band may not attend to."""
        start, stop, low, high, offset = band
        all_low, all_high = self.scores.mask.visible_to_all(start, stop, offset, self.n_key)
        all_low, all_high = max(all_low, low), min(all_high, high)
        strips = [(low, all_low), (all_high, high)] if all_low < all_high else [(low, high)]
        rows = torch.arange(start, stop, device=self.q.device)
        return [(slice(a - low, b - low), self._additive_strip(rows, a, b, offset)) for a, b in strips if a < b]

    def _additive_strip(self, rows: Tensor, low: int, high: int, offset: int) -> Tensor:
        columns = torch.arange(low, min(high, self.n_key), device=self.q.device)
        masked = ~self.scores.mask.block(rows, columns, offset)
        return F.pad(masked, (0, high - low - len(columns)), value=True).to(self.q.dtype) * MASKED


@dataclass(frozen=True)
class _Sums:
    """Sums of every row, relative to its ``shift`` (the maximum score) and not yet divided by its ``total``."""

    output: Float[Tensor, "batch head query d_value"]
    shift: PerRow
    total: PerRow
    expected: PerRow | None
    distance: Distance | None
    strongest: Int[Tensor, "batch head query"] | None
    mass: dict[str, PerRow]

    @classmethod
    def empty(cls, inputs: _Inputs, questions: Mapping[str, Question], statistics: Set[Statistic]) -> _Sums:
        shape, (dtype, device) = inputs.q.shape[:3], (inputs.q.dtype, inputs.q.device)
        blank = partial(torch.empty, shape, dtype=dtype, device=device)
        return cls(
            output=torch.empty(*shape, inputs.v.shape[-1], dtype=dtype, device=device),
            shift=blank(),
            total=blank(),
            expected=blank() if "entropy" in statistics else None,
            distance=Distance(blank(), blank()) if "distance" in statistics else None,
            strongest=blank(dtype=torch.long) if "strongest" in statistics else None,
            mass={name: blank() for name in questions},
        )


def _observe_block(inputs: _Inputs, block: _Block, mask: list[tuple[slice, Tensor]], sums: _Sums) -> Tensor:
    """Fill in one block of the sums; return its weights before division, ``[head, row, key]``, for the questions."""
    scores, at, band = _scores(inputs, block, mask), inputs.at(block), block.band
    n_heads, n_rows, width = scores.shape
    tile_max = scores.view(n_heads, n_rows, -1, TILE).amax(-1)
    top = tile_max.amax(-1)
    shift = top.clamp(min=MASKED / 2)  # a fully masked row then has powers of zero, not of one
    sums.shift[at] = shift
    scores -= shift[..., None]
    powers = torch.exp2(scores, out=inputs.buffers[1][: scores.numel()].view(scores.shape))
    tile_sum = powers.view((*tile_max.shape, TILE)).sum(-1)
    total = tile_sum.sum(-1)
    sums.total[at] = total
    v = inputs.v[block.item, block.kv, band.low : band.high]
    sums.output[at] = torch.bmm(powers.view(len(v), -1, width), v).view(n_heads, n_rows, -1)
    if sums.strongest is not None:
        sums.strongest[at] = band.low + _strongest(scores, tile_max)
    if sums.expected is not None:
        sums.expected[at] = torch.linalg.vecdot(scores, powers)
    if sums.distance is not None:
        first_row = band.start + band.offset - band.low
        sums.distance.mean[at], sums.distance.std[at] = _distance(powers, tile_sum, total, first_row, scores)
    return powers


def _scores(inputs: _Inputs, block: _Block, mask: list[tuple[slice, Tensor]]) -> Float[Tensor, "head row key"]:
    """Compute the scores of a block in base 2, with MASKED added where masked, in the first buffer."""
    at, band = inputs.at(block), block.band
    q, k = inputs.q[at], inputs.k[block.item, block.kv, band.low : band.high]
    n_heads, n_rows, d_head = q.shape
    grouped = inputs.buffers[0][: n_heads * n_rows * k.shape[1]].view(len(k), -1, k.shape[1])
    torch.bmm(q.reshape(len(k), -1, d_head), k.mT, out=grouped)
    scores = grouped.view(n_heads, n_rows, -1)
    if inputs.scores.softcap is not None:
        scores.tanh_().mul_(inputs.scores.softcap * math.log2(math.e))
    if inputs.scores.bias is not None:
        assert not isinstance(inputs.scores.bias, Tensor)
        rows = torch.arange(band.start, band.stop, device=q.device)
        columns = torch.arange(band.low, min(band.high, inputs.n_key), device=q.device)
        bias = inputs.scores.bias.block(rows, columns, band.offset).to(q.dtype) * math.log2(math.e)
        scores[..., : len(columns)] += _part(bias.clamp_(min=MASKED), at)  # −inf · 0 would be NaN
    for strip, values in mask:
        scores[..., strip] += _part(values, at)
    return scores


def _part(values: Tensor, at: tuple[int, slice, slice]) -> Tensor:
    """One batch item's heads of a mask or bias, which all items or heads may share."""
    values = values[min(at[0], len(values) - 1)]
    return values[at[1]] if len(values) > 1 else values


def _strongest(scores: Tensor, tile_max: Tensor) -> Int[Tensor, "head row"]:
    """Find the arg-max of every row: first the best tile, then the best key inside it."""
    tile = tile_max.argmax(-1)
    first = torch.arange(tile.numel(), device=tile.device).view(tile.shape) * tile_max.shape[-1]
    inside = scores.view(-1, TILE).index_select(0, (first + tile).flatten()).argmax(-1)
    return tile * TILE + inside.view(tile.shape)


def _distance(
    powers: Tensor, tile_sum: Tensor, total: Tensor, first_row: int, scratch: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the distance, from moments about the middle of each tile."""
    n_heads, n_rows, n_tiles = tile_sum.shape
    inside = torch.arange(TILE, device=powers.device, dtype=powers.dtype) - (TILE - 1) / 2
    tiles = powers.view(n_heads, n_rows, n_tiles, TILE)
    product = torch.mul(tiles, inside, out=scratch.view(tiles.shape))
    first = product.sum(-1)
    second = product.mul_(inside).sum(-1)
    position = torch.arange(n_rows, device=powers.device, dtype=powers.dtype) + first_row
    middle = torch.arange(n_tiles, device=powers.device, dtype=powers.dtype) * TILE + (TILE - 1) / 2
    distance = position[:, None] - middle
    share = 1 / total.clamp(min=torch.finfo(total.dtype).tiny)
    mean = torch.linalg.vecdot(distance.expand_as(tile_sum), tile_sum).sub_(first.sum(-1)).mul_(share)
    apart = distance - mean[..., None]
    variance = (apart * (apart * tile_sum - 2 * first) + second).sum(-1).mul_(share)
    return mean, variance.clamp_(min=0.0).sqrt_()


def _finish(inputs: _Inputs, sums: _Sums, output: torch.dtype) -> Rows:
    """Divide by the totals, a learned sink included, and convert to natural logarithms."""
    outcome = _with_sink(inputs.scores, sums)
    nonzero, on_keys = outcome.total != 0, sums.total != 0  # NaN is neither: it stays NaN
    share = torch.where(nonzero, outcome.keys / outcome.total, 0.0)
    log_total = torch.where(nonzero, outcome.total, 1.0).log()
    entropy = None
    if outcome.expected is not None:
        expected = torch.where(nonzero, outcome.expected / outcome.total, 0.0)
        entropy = (log_total - expected * math.log(2)).clamp_(min=0.0)
    strongest = None
    if sums.strongest is not None:
        strongest = Strongest(torch.where(on_keys, sums.strongest, -1), torch.where(on_keys, share, 0.0))
    return Rows(
        output=sums.output.mul_(share[..., None]).to(output),
        logsumexp=torch.where(nonzero, log_total + outcome.shift * math.log(2), float("-inf")),
        entropy=entropy,
        distance=sums.distance,
        strongest=strongest,
        mass={name: mass.mul_(share) for name, mass in sums.mass.items()},
    )


class _Outcome(NamedTuple):
    """Sums over keys and sink relative to ``shift``, and the factor that scales sums over keys alone to it."""

    shift: PerRow
    total: PerRow
    expected: PerRow | None
    keys: PerRow | float


def _with_sink(scores: Scores, sums: _Sums) -> _Outcome:
    """Add the sink at the end: distances are among the keys, however little weight the sink leaves them."""
    if scores.sinks is None:
        return _Outcome(sums.shift, sums.total, sums.expected, 1.0)
    logit = (scores.sinks.detach().to(sums.shift) * math.log2(math.e)).clamp(min=MASKED)[:, None]  # −inf · 0: NaN
    shift = torch.maximum(sums.shift, logit)
    keys, sink = torch.exp2(sums.shift - shift), torch.exp2(logit - shift)
    expected = None
    if sums.expected is not None:
        expected = (sums.expected + (sums.shift - shift) * sums.total) * keys + sink * (logit - shift)
    return _Outcome(shift, sums.total * keys + sink, expected, keys)
