"""Exact statistics in plain torch on any device, in O(T) memory: a band of rows at a time, all its keys at once.

A band is small enough to stay in cache, and whole rows need no running maximum. Keys are padded to tiles of 64, so
that maxima and moments are taken tile by tile: distances are summed relative to their tile, where float32 is exact
enough at any length, and tiles are joined afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observation import Distance, Rows, Statistic, Strongest
from headscope.attention.questions import Classes, Groups, Plan, Question, Single, one_hot, pairs, plans
from headscope.attention.scores import Scores

TILE = 64
BAND = 2**18  # scores held at once: with their powers 2 MiB in float32, about one core's cache
HIDDEN = -1e30  # finite, so that 0 · HIDDEN is 0 and not NaN


def refuse(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> str | None:
    """Why this backend will not take the request: it takes all."""
    return None


def observe(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    questions: Mapping[str, Question],
    statistics: Set[Statistic],
) -> Rows:
    """Every statistic, one band of rows after the other. ``scores`` is bound."""
    work = _Work.prepare(q, k, v, scores)
    rows = _empty_rows(work, questions, statistics, v.dtype)
    asked = plans(questions, q.device)
    indicators = {name: one_hot(p, work.k.dtype) for name, p in asked.items() if isinstance(p, Classes)}
    start = 0
    while start < work.n_query:
        stop, low, high = work.band(start)
        hidden = work.hidden_cells(start, stop, low, high)
        matching = {
            (name, item): pairs(p, item, start, stop, work.offset)
            for name, p in asked.items() if isinstance(p, Groups) for item in range(p.order.shape[0])
        }
        for item in range(q.shape[0]):
            for kv in range(k.shape[1]):
                powers = _observe_band(work, _Band(item, kv, start, stop, low, high), hidden, rows)
                heads = work.heads(kv)
                for name, p in asked.items():
                    answer = _Answer(powers, item, start, stop, low, work.offset)
                    found = answer.to(p, indicators.get(name), matching.get((name, min(item, _items(p) - 1))))
                    rows.mass[name][item, heads, start:stop] = found
        start = stop
    return rows


@dataclass(frozen=True)
class _Band:
    """Rows ``start:stop`` of one batch item's heads that share a KV head, against keys ``low:high``."""

    item: int
    kv: int
    start: int
    stop: int
    low: int
    high: int


@dataclass(frozen=True)
class _Work:
    """The inputs in working form: float32 or better, q scaled, keys padded to whole tiles, buffers for one band."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv padded d_head"]
    v: Float[Tensor, "batch kv padded d_value"]
    scores: Scores
    n_key: int
    group: int
    buffers: tuple[Tensor, Tensor]

    @classmethod
    def prepare(cls, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> _Work:
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        n_key, group = k.shape[2], q.shape[1] // k.shape[1]
        pad = -n_key % TILE
        padded = n_key + pad
        size = max(BAND, group * padded)
        buffers = (torch.empty(size, dtype=wide, device=q.device), torch.empty(size, dtype=wide, device=q.device))
        k, v = (F.pad(t.detach().to(wide), (0, 0, 0, pad)) for t in (k, v))
        assert scores.scale is not None
        return cls(q.detach().to(wide) * scores.scale, k, v, scores, n_key, group, buffers)

    @property
    def n_query(self) -> int:
        return self.q.shape[2]

    @property
    def offset(self) -> int:
        return self.n_key - self.n_query

    def heads(self, kv: int) -> slice:
        return slice(kv * self.group, (kv + 1) * self.group)

    def band(self, start: int) -> tuple[int, int, int]:
        """How many rows fit, and the tiles of keys that they can reach."""
        room = len(self.buffers[0]) // self.group
        stop = min(self.n_query, start + max(1, room // self.k.shape[2]))
        low, high = self._tiles(start, stop)
        while stop < self.n_query:  # short rows leave room for more of them
            further = min(self.n_query, start + 2 * (stop - start), start + 512)
            wider = self._tiles(start, further)
            if further == stop or (further - start) * (wider[1] - wider[0]) > room:
                break
            stop, (low, high) = further, wider
        return stop, low, high

    def _tiles(self, start: int, stop: int) -> tuple[int, int]:
        low, high = self.scores.mask.reach(start, stop, self.offset, self.n_key)
        return low // TILE * TILE, max(high + -high % TILE, low // TILE * TILE + TILE)

    def hidden_cells(self, start: int, stop: int, low: int, high: int) -> list[tuple[slice, Tensor]]:
        """Where in this band one may not look, leaving out the columns that are open to every row."""
        clear_low, clear_high = self.scores.mask.clear(start, stop, self.offset, self.n_key)
        clear_low, clear_high = max(clear_low, low), min(clear_high, high)
        strips = [(low, clear_low), (clear_high, high)] if clear_low < clear_high else [(low, high)]
        rows = torch.arange(start, stop, device=self.q.device)
        return [(slice(a - low, b - low), self._hidden(rows, a, b)) for a, b in strips if a < b]

    def _hidden(self, rows: Tensor, low: int, high: int) -> Tensor:
        columns = torch.arange(low, min(high, self.n_key), device=self.q.device)
        hidden = ~self.scores.mask.block(rows, columns, self.offset)
        return F.pad(hidden, (0, high - low - len(columns)), value=True)


def _observe_band(work: _Work, band: _Band, hidden: list[tuple[slice, Tensor]], rows: Rows) -> Tensor:
    """Fill in one band of ``rows``; give back its normalised weights ``[head, row, key]`` for the questions."""
    scores = _scores(work, band, hidden)
    group, n_rows, width = scores.shape
    tile_max = scores.view(group, n_rows, -1, TILE).amax(-1)
    highest = tile_max.amax(-1)
    sink = None if work.scores.sinks is None else work.scores.sinks[work.heads(band.kv)].to(scores)[:, None]
    if sink is not None:
        highest = torch.maximum(highest, sink)
    blind = highest <= HIDDEN / 2
    shift = highest.masked_fill(blind, 0.0)
    scores -= shift[..., None]
    powers = torch.exp(scores, out=work.buffers[1][: scores.numel()].view(scores.shape))
    tile_sum = powers.view(group, n_rows, -1, TILE).sum(-1)
    on_keys = tile_sum.sum(-1)
    total = on_keys if sink is None else on_keys + torch.exp(sink - shift)
    share = torch.where(total > 0, 1 / total, 0.0)
    at = (band.item, work.heads(band.kv), slice(band.start, band.stop))
    rows.logsumexp[at] = torch.where(total > 0, shift + total.log(), float("-inf"))
    rows.output[at] = (powers.view(-1, width) @ work.v[band.item, band.kv, band.low : band.high]).view(
        group, n_rows, -1
    ) * share[..., None]
    if rows.strongest is not None:
        rows.strongest.key[at], rows.strongest.weight[at] = _strongest(powers, tile_max, band.low, on_keys, share)
    if rows.entropy is not None:
        expected = scores.mul_(powers).sum(-1)
        if sink is not None:
            expected = expected + torch.exp(sink - shift) * (sink - shift)
        rows.entropy[at] = torch.where(total > 0, total.log() - expected * share, 0.0).clamp(min=0.0)
    if rows.distance is not None:
        first_place = band.start + work.offset - band.low
        rows.distance.mean[at], rows.distance.spread[at] = _distance(powers, tile_sum, first_place, scores)
    powers *= share[..., None]
    return powers


def _scores(work: _Work, band: _Band, hidden: list[tuple[slice, Tensor]]) -> Tensor:
    """Scores of a band, HIDDEN where one may not look, in the first buffer."""
    q = work.q[band.item, work.heads(band.kv), band.start : band.stop]
    k = work.k[band.item, band.kv, band.low : band.high]
    group, n_rows, d_head = q.shape
    scores = work.buffers[0][: group * n_rows * len(k)].view(group * n_rows, len(k))
    torch.mm(q.reshape(-1, d_head), k.T, out=scores)
    scores = scores.view(group, n_rows, len(k))
    if work.scores.softcap is not None:
        scores.div_(work.scores.softcap).tanh_().mul_(work.scores.softcap)
    if work.scores.bias is not None:
        assert not isinstance(work.scores.bias, Tensor)
        rows = torch.arange(band.start, band.stop, device=q.device)
        columns = torch.arange(band.low, min(band.high, work.n_key), device=q.device)
        bias = work.scores.bias.block(rows, columns, work.offset)
        bias = bias[min(band.item, bias.shape[0] - 1)]
        scores[..., : len(columns)] += bias[work.heads(band.kv)] if bias.shape[0] > 1 else bias
    for columns, cells in hidden:
        cells = cells[min(band.item, cells.shape[0] - 1)]
        scores[..., columns].masked_fill_(cells[work.heads(band.kv)] if cells.shape[0] > 1 else cells, HIDDEN)
    return scores


def _strongest(powers: Tensor, tile_max: Tensor, low: int, on_keys: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The arg-max: first the best tile, then the best key inside that one tile."""
    tile = tile_max.argmax(-1, keepdim=True)
    tiles = powers.view(*tile_max.shape, TILE)
    inside = tiles.gather(2, tile[..., None].expand(*tile.shape, TILE))[..., 0, :].max(-1)
    key = torch.where(on_keys > 0, low + tile[..., 0] * TILE + inside.indices, -1)
    return key, inside.values * share


def _distance(powers: Tensor, tile_sum: Tensor, first_place: int, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of the distance, from moments taken about the middle of each tile."""
    group, n_rows, n_tiles = tile_sum.shape
    inside = torch.arange(TILE, device=powers.device, dtype=powers.dtype) - (TILE - 1) / 2
    tiles = powers.view(group, n_rows, n_tiles, TILE)
    product = torch.mul(tiles, inside, out=scratch.view(tiles.shape))
    first = product.sum(-1)
    second = product.mul_(inside).sum(-1)
    place = torch.arange(n_rows, device=powers.device, dtype=powers.dtype) + first_place
    middle = torch.arange(n_tiles, device=powers.device, dtype=powers.dtype) * TILE + (TILE - 1) / 2
    reach = place[:, None] - middle
    total = tile_sum.sum(-1)
    share = torch.where(total > 0, 1 / total, 0.0)
    mean = (reach * tile_sum - first).sum(-1) * share
    apart = reach - mean[..., None]
    variance = (apart.square() * tile_sum - 2 * apart * first + second).sum(-1) * share
    return mean, variance.clamp(min=0.0).sqrt()


@dataclass(frozen=True)
class _Answer:
    """The weights of one band ``[head, row, key]``, and where it stands: enough to answer a question there."""

    weights: Tensor
    item: int
    start: int
    stop: int
    low: int
    offset: int

    def to(self, plan: Plan, indicators: Tensor | None, matching: tuple[Tensor, Tensor] | None) -> Tensor:
        if isinstance(plan, Single):
            return self._at(plan.target[min(self.item, len(plan.target) - 1), self.start : self.stop])
        if isinstance(plan, Groups):
            assert matching is not None
            return self._over(*matching)
        assert indicators is not None
        return self._in_classes(plan, indicators)

    def _at(self, target: Tensor) -> Tensor:
        """The weight at one key a row; none where the target is −1 or out of reach."""
        column = target - self.low
        inside = (column >= 0) & (column < self.weights.shape[-1]) & (target >= 0)
        column = torch.where(inside, column, 0)
        found = self.weights.gather(2, column[None, :, None].expand(self.weights.shape[0], -1, 1))[..., 0]
        return torch.where(inside, found, 0.0)

    def _over(self, rows: Tensor, keys: Tensor) -> Tensor:
        """The sum over listed pairs."""
        column = keys - self.low
        inside = (column >= 0) & (column < self.weights.shape[-1])
        rows, column = rows[inside] - self.start, column[inside]
        group, n_rows, width = self.weights.shape
        picked = self.weights.view(group, -1)[:, rows * width + column]
        return self.weights.new_zeros(group, n_rows).index_add_(1, rows, picked)

    def _in_classes(self, plan: Classes, indicators: Tensor) -> Tensor:
        """One column a class beside the values; each row reads off the class it asks for."""
        group, n_rows, width = self.weights.shape
        batch_item = min(self.item, len(plan.query_class) - 1)
        key_item = min(self.item, len(indicators) - 1)
        columns = indicators[key_item, self.low : self.low + width]
        columns = F.pad(columns, (0, 0, 0, width - len(columns)))
        masses = (self.weights.view(-1, width) @ columns).view(group, n_rows, -1)
        wanted = plan.query_class[batch_item, self.start : self.stop]
        found = F.pad(masses, (0, 1)).gather(2, wanted[None, :, None].expand(group, -1, 1) % (plan.n_classes + 1))
        if not plan.exclude_self:
            return found[..., 0]
        place = torch.arange(self.start, self.stop, device=wanted.device) + self.offset
        own = plan.key_class[key_item].gather(0, place.clamp(0, plan.key_class.shape[1] - 1))
        target = torch.where((own == wanted) & (wanted >= 0) & (place >= 0), place, -1)
        return found[..., 0] - self._at(target)


def _items(plan: Plan) -> int:
    if isinstance(plan, Groups):
        return plan.order.shape[0]
    return 1


def _empty_rows(work: _Work, questions: Mapping[str, Question], statistics: Set[Statistic], output: torch.dtype) -> Rows:
    shape = work.q.shape[:3]

    def blank(dtype: torch.dtype = work.q.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=work.q.device)

    return Rows(
        output=torch.empty(*shape, work.v.shape[-1], dtype=output, device=work.q.device),
        logsumexp=blank(),
        entropy=blank() if "entropy" in statistics else None,
        distance=Distance(blank(), blank()) if "distance" in statistics else None,
        strongest=Strongest(blank(torch.long), blank()) if "strongest" in statistics else None,
        mass={name: blank() for name in questions},
    )
