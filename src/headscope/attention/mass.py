"""Questions answered from a band of weights: rows ``start:stop`` of several heads against keys ``low:high``.

What depends on the labels alone is worked out once a band and used for every head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.questions import Classes, Groups, Plan, Single, one_hot, pairs

BandWeights = Float[Tensor, "head row key"]
Masses = dict[str, Float[Tensor, "head row"]]


class Place(NamedTuple):
    """Where a band stands: its rows, its keys, and how many keys precede the first query."""

    start: int
    stop: int
    low: int
    high: int
    offset: int


@dataclass(frozen=True)
class Answers:
    """All questions of a call, ready to be put to one band after the other."""

    plans: Mapping[str, Plan]
    indicators: Mapping[str, Float[Tensor, "batch key class"]]

    @classmethod
    def prepare(cls, plans: Mapping[str, Plan], dtype: torch.dtype) -> Answers:
        return cls(plans, {name: one_hot(plan, dtype) for name, plan in plans.items() if isinstance(plan, Classes)})

    def at(self, place: Place, item: int) -> BandAnswers:
        """The questions of one batch item, for the rows and keys of one band."""
        single, groups, classes = [], [], []
        for name, plan in self.plans.items():
            if isinstance(plan, Single):
                single.append((name, _of(plan.target, item)[place.start : place.stop]))
            elif isinstance(plan, Groups):
                groups.append((name, *pairs(plan, item, place.start, place.stop, place.offset)))
            else:
                columns = _of(self.indicators[name], item)[place.low : place.high]
                wanted = _of(plan.query_class, item)[place.start : place.stop]
                classes.append((name, columns, wanted, _own(plan, place, item, wanted)))
        return BandAnswers(_singles(single, place), _groups(groups, place), classes, place)


class Targets(NamedTuple):
    """One key a row and question, counted from the band's first; not ``inside`` means there is none."""

    names: list[str]
    column: Int[Tensor, "row question"]
    inside: Tensor


class Pairs(NamedTuple):
    """Cells of a band, and the (row, question) that each one counts for."""

    names: list[str]
    cell: Int[Tensor, " pair"]
    owner: Int[Tensor, " pair"]


@dataclass(frozen=True)
class BandAnswers:
    """Questions of one band, whatever the head."""

    single: Targets | None
    groups: Pairs | None
    classes: list[tuple[str, Tensor, Tensor, Targets | None]]
    place: Place

    def of(self, weights: BandWeights) -> Masses:
        """The mass of every question, in these heads."""
        masses: Masses = {}
        if self.single is not None:
            masses |= zip(self.single.names, _at(self.single, weights).unbind(-1), strict=True)
        if self.groups is not None:
            masses |= zip(self.groups.names, _over(self.groups, weights).unbind(-1), strict=True)
        for name, columns, wanted, own in self.classes:
            masses[name] = _in_classes(weights, columns, wanted)
            if own is not None:
                masses[name] = masses[name] - _at(own, weights)[..., 0]
        return masses


def _of(labels: Tensor, item: int) -> Tensor:
    """One batch item's labels; a single row of labels serves all items."""
    return labels[min(item, len(labels) - 1)]


def _singles(found: list[tuple[str, Tensor]], place: Place) -> Targets | None:
    if not found:
        return None
    target = torch.stack([target for _, target in found], dim=-1)
    inside = (target >= max(place.low, 0)) & (target < place.high)
    return Targets([name for name, _ in found], torch.where(inside, target - place.low, 0), inside)


def _groups(found: list[tuple[str, Tensor, Tensor]], place: Place) -> Pairs | None:
    if not found:
        return None
    cells, owners = [], []
    for number, (_, rows, keys) in enumerate(found):
        inside = (keys >= place.low) & (keys < place.high)
        rows, keys = rows[inside] - place.start, keys[inside] - place.low
        cells.append(rows * (place.high - place.low) + keys)
        owners.append(rows * len(found) + number)
    return Pairs([name for name, _, _ in found], torch.cat(cells), torch.cat(owners))


def _own(plan: Classes, place: Place, item: int, wanted: Tensor) -> Targets | None:
    """The query's own key where it would count and must not."""
    if not plan.exclude_self:
        return None
    key_class = _of(plan.key_class, item)
    own = torch.arange(place.start, place.stop, device=wanted.device) + place.offset
    counts = (own >= 0) & (wanted >= 0) & (key_class[own.clamp(min=0)] == wanted)
    return _singles([("itself", torch.where(counts, own, -1))], place)


def _at(targets: Targets, weights: BandWeights) -> Float[Tensor, "head row question"]:
    picked = weights.gather(2, targets.column.expand(len(weights), -1, -1))
    return picked.masked_fill_(~targets.inside, 0.0)


def _over(pairs: Pairs, weights: BandWeights) -> Float[Tensor, "head row question"]:
    n_heads, n_rows, _ = weights.shape
    picked = weights.view(n_heads, -1).index_select(1, pairs.cell)
    sums = weights.new_zeros(n_heads, n_rows * len(pairs.names)).index_add_(1, pairs.owner, picked)
    return sums.view(n_heads, n_rows, -1)


def _in_classes(weights: BandWeights, columns: Tensor, wanted: Tensor) -> Float[Tensor, "head row"]:
    """One column a class beside the values; each row reads off the class it asks for."""
    masses = weights[..., : len(columns)] @ columns
    found = masses.gather(2, wanted.clamp(min=0)[None, :, None].expand(len(weights), -1, 1))[..., 0]
    return found.masked_fill_(wanted < 0, 0.0)
