"""Fit a head's mixture of rules: greedy choice among all rules, weights by exponentiated gradient.

The objective is what is reported: the mean of the gain over position (the share explained, 1 − total variation, in
units of what position leaves unexplained) and of the share of the rest (the first key removed, renormalised, weighted
by the mass that remains). A mixture has at most four weights, so few steps are enough. A rule without a target in a
row yields its weight there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

STEPS = (0.03, 0.1, 0.25, 0.45, 0.7, 0.95)
"""Weights tried for a rule that is added to a mixture; they are refitted afterwards."""
STRIDE = 2
"""Candidates are compared on every second row; weights are fitted on all of them."""

SHORTLIST, OF_A_FAMILY = 6, 2
"""Rules tried at each step, and how many of them may have the same targets."""
RELATIVES = 4
"""Rules with the same targets that are tried in place of the one that was added."""
ITERATIONS, PATIENCE, LITTLE = 10, 4, 1e-4
"""Steps of a refit; it ends when so many in a row have improved the objective by no more than a little."""
RATE, SLOWER = 3.0, 0.75
TIE = 1e-3
"""Of rules whose objectives differ by less, the simplest is taken."""
TINY = 1e-12


class Shares(NamedTuple):
    """Per row: the mass that pattern and mixture have in common, whole and beside the first key, and the mass there."""

    whole: Float[Tensor, "*mixture row"]
    rest: Float[Tensor, "*mixture row"]
    beside: Float[Tensor, " row"]

    def explained(self) -> Float[Tensor, "*mixture"]:
        return self.whole.mean(-1)

    def of_the_rest(self) -> Float[Tensor, "*mixture"]:
        return self.rest.sum(-1) / self.beside.sum().clamp_min(TINY)

    def objective(self, stress: float = 1.0) -> Float[Tensor, "*mixture"]:
        """Half of the share of the rest, and half of the share explained times ``stress``, 1 / (1 − S₀)."""
        return (self.explained() * stress + self.of_the_rest()) / 2


def shares(pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "*mixture row key"]) -> Shares:
    """What a mixture and a pattern have in common."""
    beside = pattern[:, 1:].sum(-1)
    whole = torch.minimum(pattern, mixture).sum(-1)
    left = mixture[..., 1:].sum(-1).clamp_min(TINY)
    rest = torch.minimum(pattern[:, 1:], mixture[..., 1:] * (beside / left)[..., None]).sum(-1)
    return Shares(whole, rest, beside)


class Entries(NamedTuple):
    """The weights of some rules that are not zero, rule after rule: about one in twelve, so sums over them are fast."""

    place: Int[Tensor, " entry"]
    """In the flattened rows."""
    row: Int[Tensor, " entry"]
    weight: Float[Tensor, " entry"]
    beside: Float[Tensor, " entry"]
    """The weight, but 0 at the first key."""
    sizes: tuple[int, ...]
    """How many entries each rule has."""

    @classmethod
    def of(cls, rules: Float[Tensor, "rule row key"]) -> Entries:
        rule, row, key = rules.nonzero(as_tuple=True)
        weight = rules[rule, row, key]
        sizes = torch.bincount(rule, minlength=len(rules)).tolist()
        place = (row * rules.shape[-1] + key).int()  # some times faster to look up than long integers
        return cls(place, row.int(), weight, weight.where(key > 0, 0.0), tuple(sizes))

    def part(self, first: int, last: int | None = None) -> Entries:
        """The entries of some rules that stand next to each other."""
        start, end = sum(self.sizes[:first]), sum(self.sizes[:last])
        place, row, weight, beside = (column[start:end] for column in self[:4])
        return Entries(place, row, weight, beside, self.sizes[first:last])

    def sums(self, values: Float[Tensor, " entry"]) -> Float[Tensor, " rule"]:
        return torch.stack([part.sum() for part in torch.split(values, list(self.sizes))])


@dataclass(frozen=True)
class Candidates:
    """The rules that a head may be made of: their distributions on the sampled rows, and which rows have a target.

    Rules stand in order of simplicity, those of position first. What is one head's own comes last: its class table, its
    pattern in short context.
    """

    rules: Float[Tensor, "rule row key"]
    applies: Bool[Tensor, "rule row"]
    some: Float[Tensor, "rule thinned key"]
    """Every second row of the rules, which candidates are compared on."""
    entries: Entries
    own: tuple[Float[Tensor, "row key"], ...] = ()
    stress: float = 1.0
    """How much the share explained counts for this head (``Shares.objective``)."""
    families: tuple[int, ...] = ()
    """A number for each shared rule: rules of a family have the same targets, near by, the last one or all of them."""

    @classmethod
    def of(cls, rules: Float[Tensor, "rule row key"], families: Sequence[int] | None = None) -> Candidates:
        known = tuple(range(len(rules)) if families is None else families)
        return cls(rules, rules.sum(-1) > 0, rules[:, ::STRIDE].contiguous(), Entries.of(rules), families=known)

    def __len__(self) -> int:
        return len(self.rules) + len(self.own)

    def first(self, count: int) -> Candidates:
        """The first rules only, those of position for instance."""
        return replace(self._part(slice(count)), entries=self.entries.part(0, count), own=())

    def after(self, count: int) -> Candidates:
        """All rules but the first."""
        return replace(self._part(slice(count, None)), entries=self.entries.part(count))

    def _part(self, which: slice) -> Candidates:
        rules, applies, some = (each[which] for each in (self.rules, self.applies, self.some))
        return replace(self, rules=rules, applies=applies, some=some, families=self.families[which])

    def thinned(self) -> Candidates:
        """The same on every second row, to compare rules with one another; weights are fitted on all rows."""
        own = tuple(each[::STRIDE] for each in self.own)
        return replace(self, rules=self.some, applies=self.applies[:, ::STRIDE], own=own)

    def stressed(self, stress: float) -> Candidates:
        return replace(self, stress=stress)

    def family(self, index: int) -> int:
        """The family of a rule; what is a head's own has one to itself."""
        return self.families[index] if index < len(self.families) else -1 - index

    def relatives(self, index: int) -> list[int]:
        """Other rules of a rule's family, of long ones those that stand nearest."""
        wanted = self.family(index)
        found = [other for other, family in enumerate(self.families) if family == wanted and other != index]
        return sorted(found, key=lambda other: abs(other - index))[:RELATIVES]

    def with_own(self, *own: Float[Tensor, "row key"]) -> Candidates:
        return replace(self, own=own)

    def at(self, index: int) -> tuple[Float[Tensor, "row key"], Bool[Tensor, " row"]]:
        """One rule's distribution, and its rows with a target."""
        if index < len(self.rules):
            return self.rules[index], self.applies[index]
        return self.own[index - len(self.rules)], torch.ones_like(self.applies[0])

    def chosen(self, indices: list[int]) -> tuple[Float[Tensor, "rule row key"], Float[Tensor, "rule row"]]:
        rules, applies = zip(*(self.at(index) for index in indices), strict=True)
        return torch.stack(rules), torch.stack(applies).float()

    def mixture(self, fitted: Fitted) -> Float[Tensor, "row key"]:
        """The mixture of some rules; where none has a target, the first token."""
        return mixed(*self.chosen(fitted.rules), fitted.weights)[0]

    def score(self, pattern: Float[Tensor, "row key"], fitted: Fitted) -> float:
        """The objective of a mixture on these rows."""
        return float(self.shares(pattern, fitted).objective(self.stress))

    def shares(self, pattern: Float[Tensor, "row key"], fitted: Fitted) -> Shares:
        return shares(pattern, self.mixture(fitted))

    def alone(self, pattern: Float[Tensor, "row key"]) -> Float[Tensor, "measure rule"]:
        """The share explained and the share of the rest of each shared rule as the only one.

        Equal to ``shares`` of the rule, with the first token in rows without a target. Beside the first key the weights
        of a shared rule add up to 1 or 0, so it need not be normalised there.
        """
        beside, entries = pattern[:, 1:].sum(-1), self.entries
        there = pattern.flatten().index_select(0, entries.place)
        whole = entries.sums(torch.minimum(there, entries.weight))
        whole += (~self.applies).to(pattern.dtype) @ pattern[:, 0]
        rest = entries.sums(torch.minimum(there, entries.beside * beside.index_select(0, entries.row)))
        return torch.stack((whole / len(pattern), rest / beside.sum().clamp_min(TINY)))

    def slopes(self, pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "row key"]) -> Float[Tensor, " rule"]:
        """How the objective grows with the weight of each rule, at weight zero."""
        _, gain = _Target.of(pattern, self.stress).climb(mixture)
        taken = (gain * mixture).sum(-1)
        slope = self.rules.flatten(1) @ gain.flatten() - self.applies.float() @ taken
        own = [((each * gain).sum() - taken.sum())[None] for each in self.own]
        return torch.cat((slope, *own))


class Fitted(NamedTuple):
    """Rules by index, heaviest first, with weights that add up to 1, and the objective on the rows of the fit."""

    rules: list[int]
    weights: Float[Tensor, " rule"]
    objective: float


def fit_path(
    pattern: Float[Tensor, "row key"], candidates: Candidates, most: int, alone: Float[Tensor, "measure rule"]
) -> list[Fitted]:
    """The best mixture found of one rule, of two, up to ``most``. ``alone`` is what each rule explains by itself."""
    scores = (alone[0] * candidates.stress + alone[1]) / 2
    first = int((scores >= scores.max() - TIE).int().argmax())  # the simplest among equals
    path = [Fitted([first], torch.ones(1, device=pattern.device), float(scores[first]))]
    while len(path) < min(most, len(candidates)):
        grown = _grow(pattern, candidates, path[-1])
        if grown is None:
            break
        path.append(grown)
    return path


def _grow(pattern: Float[Tensor, "row key"], candidates: Candidates, before: Fitted) -> Fitted | None:
    """Add the rule that helps most: a short list by gradient, each with a line search; then refit all weights."""
    some, thinned = pattern[::STRIDE].contiguous(), candidates.thinned()
    mixture = thinned.mixture(before)
    line = _Line(some, mixture, candidates.stress)
    tried = [
        (rule, *line.search(thinned, rule))
        for rule in _shortlist(thinned.slopes(some, mixture), candidates, before.rules)
    ]
    best = max(gained for _, _, gained in tried)
    if best <= 0:
        return None
    rule, step, _ = next(entry for entry in tried if entry[2] >= best - TIE)
    weights = torch.cat((before.weights * (1 - step), before.weights.new_tensor([step])))
    grown = refit(pattern, candidates, [*before.rules, rule], weights)
    relative = _best_relative(some, thinned, grown, rule)
    if relative != rule:
        rules = [relative if each == rule else each for each in grown.rules]
        grown = max(grown, refit(pattern, candidates, rules, grown.weights), key=lambda fitted: fitted.objective)
    return grown if grown.objective > before.objective else None


def _shortlist(slopes: Float[Tensor, " rule"], candidates: Candidates, without: list[int]) -> list[int]:
    """The steepest rules, few of each family: slopes at weight zero flatter rules that spread, and decays are many."""
    found: list[int] = []
    count: Counter[int] = Counter()
    for rule in slopes.argsort(descending=True).tolist():
        family = candidates.family(rule)
        if rule not in without and count[family] < OF_A_FAMILY:
            found.append(rule)
            count[family] += 1
        if len(found) == SHORTLIST:
            break
    return sorted(found)


def _best_relative(pattern: Float[Tensor, "row key"], candidates: Candidates, fitted: Fitted, rule: int) -> int:
    """The rule of the same targets that is clearly better in a mixture than one of its rules."""
    rules, applies = candidates.chosen(fitted.rules)
    place = fitted.rules.index(rule)
    found: list[tuple[float, int]] = []
    for other in (rule, *(each for each in candidates.relatives(rule) if each not in fitted.rules)):
        distribution, has_target = candidates.at(other)
        rules[place], applies[place] = distribution, has_target.to(applies.dtype)
        mixture, _ = mixed(rules, applies, fitted.weights)
        found.append((float(shares(pattern, mixture).objective(candidates.stress)), other))
    best, relative = max(found)
    return relative if best > found[0][0] + TIE else rule


class _Line:
    """Objectives of a mixture with some weight given to another rule."""

    def __init__(self, pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "row key"], stress: float) -> None:
        self.pattern, self.mixture, self.stress = pattern, mixture, stress
        self.steps = torch.tensor(STEPS, device=pattern.device)[:, None]
        self.beside, self.left = self.pattern[:, 1:].sum(-1), self.mixture[:, 1:].sum(-1)
        self.before = float(shares(self.pattern, self.mixture).objective(stress))

    def search(self, candidates: Candidates, index: int) -> tuple[float, float]:
        """The best weight of a rule, and how much the objective grows there."""
        rule, applies = candidates.at(index)
        steps = self.steps * applies
        mixture = torch.addcmul(self.mixture, steps[..., None], rule - self.mixture)
        left = self.left + steps * (rule[:, 1:].sum(-1) - self.left)
        whole = torch.minimum(self.pattern, mixture).sum((-2, -1)) / len(self.pattern)
        mixture *= (self.beside / left.clamp_min(TINY))[..., None]
        rest = torch.minimum(self.pattern[:, 1:], mixture[..., 1:]).sum((-2, -1))
        objective = (whole * self.stress + rest / self.beside.sum().clamp_min(TINY)) / 2
        best = int(objective.argmax())
        return STEPS[best], float(objective[best]) - self.before


def refit(
    pattern: Float[Tensor, "row key"], candidates: Candidates, chosen: list[int], weights: Float[Tensor, " rule"]
) -> Fitted:
    """Improve the weights of these rules by exponentiated gradient; keep the best seen."""
    rules, applies = candidates.chosen(chosen)
    target = _Target.of(pattern, candidates.stress)
    best, kept, at = -1.0, weights, 0
    for iteration in range(ITERATIONS):
        mixture, total = mixed(rules, applies, weights)
        objective, gain = target.climb(mixture)
        if objective > best:
            at = iteration if objective > best + LITTLE else at
            best, kept = objective, weights
        if iteration - at >= PATIENCE:
            break
        share = applies / total.clamp_min(TINY)
        slope = torch.einsum("rk,crk->cr", gain, rules) * share
        taken = weights @ slope  # the gradient's mean under the mixture, by row
        slope = slope.sum(-1) - share @ taken
        weights = weights * torch.exp((RATE * SLOWER**iteration * slope).clamp(-2, 2))
        weights = weights / weights.sum()
    order = kept.argsort(descending=True, stable=True)
    return Fitted([chosen[place] for place in order.tolist()], kept[order], best)


def mixed(
    rules: Float[Tensor, "rule row key"] | Sequence[Float[Tensor, "row key"]],
    applies: Shaped[Tensor, "rule row"],
    weights: Float[Tensor, " rule"],
) -> tuple[Float[Tensor, "row key"], Float[Tensor, " row"]]:
    """A mixture where each rule yields its weight in rows without a target, and the weight that applies in each row."""
    held = weights[:, None] * applies
    total = held.sum(0)
    held = held / total.clamp_min(TINY)
    mixture = rules[0] * held[0][:, None]
    for rule, share in zip(rules[1:], held[1:], strict=True):
        mixture.addcmul_(rule, share[:, None])
    mixture[total <= TINY, 0] = 1.0
    return mixture, total


class _Target(NamedTuple):
    """A pattern that mixtures are fitted to, its sums, and what the whole and the rest count in the objective."""

    pattern: Float[Tensor, "row key"]
    beside: Float[Tensor, " row"]
    whole: float
    rest: float
    most: float
    """The objective of a mixture that lacks nothing."""

    @classmethod
    def of(cls, pattern: Float[Tensor, "row key"], stress: float) -> _Target:
        beside = pattern[:, 1:].sum(-1)
        all_beside = float(beside.sum())
        whole, rest = stress / (2 * len(pattern)), 1 / (2 * max(all_beside, TINY))
        return cls(pattern, beside, whole, rest, float(pattern.sum()) * whole + all_beside * rest)

    def climb(self, mixture: Float[Tensor, "row key"]) -> tuple[float, Float[Tensor, "row key"]]:
        """The objective and its gradient by cell.

        What two distributions have in common is the one less what the other lacks: Σ min(p, m) = Σ p − Σ max(p − m, 0).
        """
        made = mixture[:, 1:]
        left = made.sum(-1)
        ratio = self.beside / left.clamp_min(TINY)
        lacking = self.pattern - mixture
        lacking_beside = torch.addcmul(self.pattern[:, 1:], made, ratio[:, None], value=-1)
        gain, wanting = _above_zero(lacking), _above_zero(lacking_beside)
        lost = torch.dot(gain.flatten(), lacking.flatten()) * self.whole
        lost += torch.dot(wanting.flatten(), lacking_beside.flatten()) * self.rest
        common = (wanting * made).sum(-1) / left.clamp_min(TINY)
        slope = self.beside * self.rest / left.clamp_min(1e-3)
        gain *= self.whole
        gain[:, 1:].addcmul_(wanting, slope[:, None]).sub_((slope * common)[:, None])
        return self.most - float(lost), gain


def _above_zero(values: Float[Tensor, "row key"]) -> Float[Tensor, "row key"]:
    """1 where a value is above zero, else 0: some times faster than a comparison, which is not vectorised."""
    return (values * 1e30).clamp_(0, 1)
