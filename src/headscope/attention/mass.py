"""Sum attention weights over the keys that match each question, for one band of the pattern at a time.

What depends on the labels alone is computed once per band, by ``matches``, and used for every head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Classes, Groups, Plan, Single, pairs

BandWeights = Float[Tensor, "head row key"]
Masses = dict[str, Float[Tensor, "head row"]]


class Band(NamedTuple):
    """Query rows ``start:stop`` against keys ``low:high``; query i is at key position i + ``offset``."""

    start: int
    stop: int
    low: int
    high: int
    offset: int


class _MatchingKey(NamedTuple):
    """At most one matching key per row and question, as a column of the band; not ``inside`` means there is none."""

    names: list[str]
    column: Int[Tensor, "row question"]
    inside: Bool[Tensor, "row question"]

    def masses(self, weights: BandWeights) -> Masses:
        picked = weights.gather(2, self.column.expand(len(weights), -1, -1)).masked_fill_(~self.inside, 0.0)
        return dict(zip(self.names, picked.unbind(-1), strict=True))


class _MatchingPairs(NamedTuple):
    """Cells of the band, flattened, and the (row, question) that each one counts for."""

    names: list[str]
    cell: Int[Tensor, " pair"]
    counts_for: Int[Tensor, " pair"]

    def masses(self, weights: BandWeights) -> Masses:
        n_heads, n_rows, _ = weights.shape
        picked = weights.view(n_heads, -1).index_select(1, self.cell)
        sums = weights.new_zeros(n_heads, n_rows * len(self.names)).index_add_(1, self.counts_for, picked)
        return dict(zip(self.names, sums.view(n_heads, n_rows, -1).unbind(-1), strict=True))


class _MatchingClass(NamedTuple):
    """One question's indicator columns, the class that each row asks for, and the query's own key to leave out."""

    name: str
    columns: Float[Tensor, "key class"]
    row_class: Int[Tensor, " row"]
    own: _MatchingKey | None

    def masses(self, weights: BandWeights) -> Masses:
        by_class = weights[..., : len(self.columns)] @ self.columns
        mass = by_class.gather(2, self.row_class.clamp(min=0)[None, :, None].expand(len(weights), -1, 1))[..., 0]
        mass.masked_fill_(self.row_class < 0, 0.0)
        return {self.name: mass if self.own is None else mass - self.own.masses(weights)[self.name]}


Match = _MatchingKey | _MatchingPairs | _MatchingClass


def matches(plans: Mapping[str, Plan], band: Band, item: int, dtype: torch.dtype) -> list[Match]:
    """Find the weights of one batch item's band that count for each question."""
    single = {
        name: _item(plan.target, item)[band.start : band.stop]
        for name, plan in plans.items()
        if isinstance(plan, Single)
    }
    groups = {
        name: pairs(plan, item, band.start, band.stop, band.offset)
        for name, plan in plans.items()
        if isinstance(plan, Groups)
    }
    found: list[Match] = [
        _matching_class(name, plan, band, item, dtype) for name, plan in plans.items() if isinstance(plan, Classes)
    ]
    if single:
        found.append(_matching_key(single, band))
    if groups:
        found.append(_matching_pairs(groups, band))
    return found


def _item(labels: Tensor, item: int) -> Tensor:
    """One batch item's labels; a single row of labels is shared by all items."""
    return labels[min(item, len(labels) - 1)]


def _matching_key(targets: Mapping[str, Tensor], band: Band) -> _MatchingKey:
    target = torch.stack(list(targets.values()), dim=-1)
    inside = (target >= max(band.low, 0)) & (target < band.high)
    return _MatchingKey(list(targets), torch.where(inside, target - band.low, 0), inside)


def _matching_pairs(groups: Mapping[str, tuple[Tensor, Tensor]], band: Band) -> _MatchingPairs:
    cells, owners = [], []
    for number, (rows, keys) in enumerate(groups.values()):
        inside = (keys >= band.low) & (keys < band.high)
        rows, keys = rows[inside] - band.start, keys[inside] - band.low
        cells.append(rows * (band.high - band.low) + keys)
        owners.append(rows * len(groups) + number)
    return _MatchingPairs(list(groups), torch.cat(cells), torch.cat(owners))


def _matching_class(name: str, plan: Classes, band: Band, item: int, dtype: torch.dtype) -> _MatchingClass:
    columns, row_class = _item(plan.columns, item), _item(plan.query_class, item)[band.start : band.stop]
    own = None
    if plan.exclude_self:
        position = torch.arange(band.start, band.stop, device=row_class.device) + band.offset
        counts = (columns[position.clamp(min=0), row_class.clamp(min=0)] > 0) & (row_class >= 0)
        own = _matching_key({name: torch.where(counts, position, -1)}, band)
    return _MatchingClass(name, columns[band.low : band.high].to(dtype), row_class, own)
