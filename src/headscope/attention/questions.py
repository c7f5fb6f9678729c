"""A question to a head: how much of its attention lands where the query's label equals the key's?

``plan`` turns the labels into the cheapest numeric form. *Single*: no two keys share a label, so each query meets at
most one key. *Classes*: few labels, so indicator columns stand beside the values. *Groups*: many labels, each on few
keys, so only the matching pairs are listed. All three give the same masses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from headscope.errors import ShapeError

Path = Literal["single", "classes", "groups"]
T = TypeVar("T")

MOST_CLASSES = 16


@dataclass(frozen=True)
class Question:
    """Two label vectors, shared by all heads: ``(position)`` or ``(batch, position)``. Label −1 matches nothing.

    ``exclude_self`` leaves out the key at the query's own place.
    """

    query: Num[Tensor, "..."]
    key: Num[Tensor, "..."]
    exclude_self: bool = False
    _known: dict[Hashable, tuple[Hashable, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("query", "key"):
            labels = getattr(self, name)
            if labels.is_floating_point() or labels.dtype == torch.bool or labels.ndim not in (1, 2):
                raise ShapeError(
                    f"the {name} labels of a question are integers of shape (position) or (batch, position); "
                    f"got {labels.dtype} of shape {tuple(labels.shape)}"
                )
            object.__setattr__(self, name, labels if labels.ndim == 2 else labels[None])

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, worked out once for these labels: every layer of a model puts the same questions."""
        state = tuple(0 if labels.is_inference() else labels._version for labels in (self.query, self.key))
        if what not in self._known or self._known[what][0] != state:
            self._known[what] = (state, make())
        found: T = self._known[what][1]
        return found

    def check(self, batch: int, n_query: int, n_key: int) -> None:
        for name, labels, length in (("query", self.query, n_query), ("key", self.key, n_key)):
            if labels.shape[0] not in (1, batch) or labels.shape[1] != length:
                raise ShapeError(
                    f"the {name} labels of a question have shape {tuple(labels.shape)}; these tensors need "
                    f"(1 or {batch}, {length}): one label a {name}"
                )


@dataclass(frozen=True)
class Single:
    """The one key that each query's label names, or −1."""

    target: Int[Tensor, "batch query"]


@dataclass(frozen=True)
class Classes:
    """Which of a few classes each key is in, and which each query asks for; −1 for none."""

    query_class: Int[Tensor, "batch query"]
    key_class: Int[Tensor, "batch key"]
    n_classes: int
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
    """The cheapest form of a question, or the form asked for."""
    return question.once((str(device), path), lambda: _plan(question, torch.device(device), path))


def single_or_groups(question: Question, device: torch.device) -> Single | Groups:
    """The cheapest form for a backend that lists matching keys whatever their number."""
    groups = plan(question, device, "groups")
    assert isinstance(groups, Groups)
    if question.once((str(device), "widest"), lambda: _widest(groups)) > 1:
        return groups
    found = plan(question, device, "single")
    assert isinstance(found, Single)
    return found


def plans(questions: Mapping[str, Question], device: torch.device) -> dict[str, Plan]:
    return {name: plan(question, device) for name, question in questions.items()}


def _plan(question: Question, device: torch.device, path: Path | None) -> Plan:
    query, key = question.query.to(device).long(), question.key.to(device).long()
    groups = _group(query, key, question.exclude_self)
    if path == "groups":
        return groups
    widest = _widest(groups)
    if path == "single" or (path is None and widest <= 1):
        if widest > 1:
            raise ShapeError(f"a query of this question matches {widest} keys; the single-pair path takes at most one")
        return _single(groups, query.shape[1], key.shape[1])
    labels = torch.unique(key[key != -1])
    labels = labels[torch.isin(labels, query)]
    if path is None and len(labels) > MOST_CLASSES:
        return groups
    n_classes = max(len(labels), 1)  # one empty class where no label is shared: every query has a column to read
    return Classes(_index(query, labels), _index(key, labels), n_classes, question.exclude_self)


def _widest(groups: Groups) -> int:
    """How many keys a query matches at most."""
    return int((groups.stop - groups.start).max()) if groups.start.numel() else 0


def pairs(groups: Groups, item: int, start: int, stop: int, offset: int) -> tuple[Tensor, Tensor]:
    """The matching (query, key) pairs of rows ``start:stop`` of one batch item, as two index vectors."""
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


def one_hot(classes: Classes, dtype: torch.dtype) -> Float[Tensor, "batch key class"]:
    """Indicator columns: 1 where a key is in a class."""
    columns = torch.arange(classes.n_classes, device=classes.key_class.device)
    return (classes.key_class[..., None] == columns).to(dtype)


def _group(query: Tensor, key: Tensor, exclude_self: bool) -> Groups:
    batch = max(query.shape[0], key.shape[0])
    query, key = query.expand(batch, -1).contiguous(), key.expand(batch, -1).contiguous()
    labels, order = key.sort(dim=-1, stable=True)
    start = torch.searchsorted(labels, query, side="left")
    stop = torch.searchsorted(labels, query, side="right")
    return Groups(order, start, torch.where(query == -1, start, stop), exclude_self)


def _single(groups: Groups, n_query: int, n_key: int) -> Single:
    found = groups.stop > groups.start
    target = groups.order.gather(1, groups.start.clamp(max=n_key - 1))
    if groups.exclude_self:
        itself = torch.arange(n_query, device=target.device) + n_key - n_query
        found = found & (target != itself)
    return Single(torch.where(found, target, -1))


def _index(values: Tensor, labels: Tensor) -> Tensor:
    """Where each value stands among the sorted labels, or −1."""
    if not len(labels):
        return torch.full_like(values, -1)
    place = torch.searchsorted(labels, values).clamp(max=len(labels) - 1)
    return torch.where(labels[place] == values, place, -1)
