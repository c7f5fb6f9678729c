"""Questions to a head: how much of its attention is on keys whose label equals the query's label?

``plan`` turns the labels into the cheapest form to compute with. *Single*: each query matches at most one key.
*Classes*: few labels, so the pattern is multiplied by one indicator column per label. *Groups*: many labels, each on
few keys, so only the matching pairs are listed. All three give the same masses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from headscope.checked import named, summary
from headscope.errors import ShapeError

Path = Literal["single", "classes", "groups"]
T = TypeVar("T")

MOST_CLASSES = 16


@named
@dataclass(frozen=True)
class Question:
    """Integer labels of queries and keys, ``(position)`` or ``(batch, position)``, shared by all heads.

    Label −1 matches nothing. ``exclude_self`` leaves out the key at the query's own position.
    """

    query: Num[Tensor, "..."]
    key: Num[Tensor, "..."]
    exclude_self: bool = False
    _cache: dict[Hashable, tuple[Hashable, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    __repr__ = summary

    def __post_init__(self) -> None:
        if not isinstance(self.exclude_self, bool):
            raise ShapeError(f"exclude_self={self.exclude_self!r:.60} is True or False")
        for name in ("query", "key"):
            labels = getattr(self, name)
            known = isinstance(labels, Tensor)
            if not known or labels.is_floating_point() or labels.dtype == torch.bool or labels.ndim not in (1, 2):
                got = f"{labels.dtype} of shape {tuple(labels.shape)}" if known else repr(labels)[:60]
                raise ShapeError(
                    f"the {name} labels of a question are integers of shape (position) or (batch, position); got {got}"
                )
            object.__setattr__(self, name, labels if labels.ndim == 2 else labels[None])

    def to(self, device: torch.device | str) -> Question:
        """The same question with its labels there."""
        return Question(self.query.to(device), self.key.to(device), self.exclude_self)

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute a value once for these labels, since every layer of a model asks the same questions."""
        version = tuple(0 if labels.is_inference() else labels._version for labels in (self.query, self.key))
        if key not in self._cache or self._cache[key][0] != version:
            self._cache[key] = (version, compute())
        value: T = self._cache[key][1]
        return value

    def check(self, batch: int, n_query: int, n_key: int) -> None:
        for name, labels, length in (("query", self.query, n_query), ("key", self.key, n_key)):
            if labels.shape[0] not in (1, batch) or labels.shape[1] != length:
                raise ShapeError(
                    f"the {name} labels of a question have shape {tuple(labels.shape)}; these tensors need "
                    f"(1 or {batch}, {length}): one label per {name}"
                )


@dataclass(frozen=True)
class Single:
    """The only key that matches each query, or −1 for none."""

    target: Int[Tensor, "batch query"]


@dataclass(frozen=True)
class Classes:
    """Indicator columns, 1 where a key is in a class, and the class that each query asks for, or −1 for none."""

    query_class: Int[Tensor, "batch query"]
    columns: Float[Tensor, "batch key class"]
    exclude_self: bool


@dataclass(frozen=True)
class Groups:
    """Keys sorted by label; query i matches the sorted keys ``start[i]:stop[i]``."""

    order: Int[Tensor, "batch key"]
    start: Int[Tensor, "batch query"]
    stop: Int[Tensor, "batch query"]
    exclude_self: bool


Plan = Single | Classes | Groups


def plan(question: Question, device: torch.device | str = "cpu", path: Path | None = None) -> Plan:
    """Return the cheapest form of a question, or the one named by ``path``."""
    return question.cached((str(device), path), lambda: _plan(question, torch.device(device), path))


def single_or_groups(question: Question, device: torch.device) -> Single | Groups:
    """Return the cheapest form for a backend that lists matching keys, however many there are."""

    def compute() -> Single | Groups:
        groups = _group(question, device)
        return groups if _most_matches(groups) > 1 else _single(groups)

    return question.cached((str(device), "single or groups"), compute)


def _plan(question: Question, device: torch.device, path: Path | None) -> Plan:
    groups = _group(question, device)
    if path == "groups":
        return groups
    if path == "single" or (path is None and _most_matches(groups) <= 1):
        return _single(groups)
    query, key = (labels.to(device).long() for labels in (question.query, question.key))
    labels = torch.unique(key[key != -1])
    labels = labels[torch.isin(labels, query)]
    if not len(labels) or (path is None and len(labels) > MOST_CLASSES):
        return groups
    asks = query[..., None] == labels
    query_class = torch.where(asks.any(-1), asks.int().argmax(-1), -1)
    return Classes(query_class, (key[..., None] == labels).float(), question.exclude_self)


def _most_matches(groups: Groups) -> int:
    """How many keys a query matches at most."""
    return int((groups.stop - groups.start).max()) if groups.start.numel() else 0


def pairs(groups: Groups, item: int, start: int, stop: int, offset: int) -> tuple[Tensor, Tensor]:
    """List the matching (query, key) pairs of rows ``start:stop`` of one batch item, as two index vectors."""
    item = min(item, groups.order.shape[0] - 1)
    first, last = groups.start[item, start:stop], groups.stop[item, start:stop]
    count = last - first
    total = int(count.sum())
    rows = torch.repeat_interleave(torch.arange(start, stop, device=count.device), count)
    before = torch.repeat_interleave(count.cumsum(0) - count, count)
    within = torch.arange(total, device=count.device) - before
    keys = groups.order[item, torch.repeat_interleave(first, count) + within]
    if groups.exclude_self:
        other = keys != rows + offset
        rows, keys = rows[other], keys[other]
    return rows, keys


def _group(question: Question, device: torch.device) -> Groups:
    batch = max(len(question.query), len(question.key))
    query, key = (labels.to(device).long().expand(batch, -1).contiguous() for labels in (question.query, question.key))
    labels, order = key.sort(dim=-1, stable=True)
    start = torch.searchsorted(labels, query, side="left")
    stop = torch.searchsorted(labels, query, side="right")
    return Groups(order, start, torch.where(query == -1, start, stop), question.exclude_self)


def _single(groups: Groups) -> Single:
    most, n_query, n_key = _most_matches(groups), groups.start.shape[1], groups.order.shape[1]
    if most > 1:
        raise ShapeError(f"a query of this question matches {most} keys; the single-pair path takes at most one")
    found = groups.stop > groups.start
    target = groups.order.gather(1, groups.start.clamp(max=n_key - 1))
    if groups.exclude_self:
        found = found & (target != torch.arange(n_key - n_query, n_key, device=target.device))
    return Single(torch.where(found, target, -1))


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
