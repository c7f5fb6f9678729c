"""Fit a head's mixture of rules: greedy choice among all rules, weights by exponentiated gradient.

The objective is what is reported: the mean of the gain over position (the share explained, 1 − total variation, in
units of what position leaves unexplained) and of the share of the rest (the first key removed, renormalised, weighted
by the mass that remains). A mixture has at most four weights, so few steps are enough. A rule without a target in a
row yields its weight there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

STEPS = (0.03, 0.1, 0.25, 0.45, 0.7, 0.95)
"""Weights tried for a rule that is added to a mixture; they are refitted afterwards."""
STRIDE = 2
"""Candidates are compared on every second row; weights are fitted on all of them."""

SHORTLIST = 6
ITERATIONS = 10
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


@dataclass(frozen=True)
class Candidates:
    """The rules that a head may be made of: their distributions on the sampled rows, and which rows have a target.

    Rules stand in order of simplicity, those of position first. What is one head's own comes last: its class table, its
    pattern in short context.
    """

    rules: Float[Tensor, "rule row key"]
    applies: Bool[Tensor, "rule row"]
    own: tuple[Float[Tensor, "row key"], ...] = ()
    stress: float = 1.0
    """How much the share explained counts for this head (``Shares.objective``)."""

    @classmethod
    def of(cls, rules: Float[Tensor, "rule row key"]) -> Candidates:
        return cls(rules, rules.sum(-1) > 0)

    def __len__(self) -> int:
        return len(self.rules) + len(self.own)

    def first(self, count: int) -> Candidates:
        """The first rules only, those of position for instance."""
        return replace(self, rules=self.rules[:count], applies=self.applies[:count], own=())

    def after(self, count: int) -> Candidates:
        """All rules but the first."""
        return replace(self, rules=self.rules[count:], applies=self.applies[count:])

    def stressed(self, stress: float) -> Candidates:
        return replace(self, stress=stress)

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
        return _mixed(*self.chosen(fitted.rules), fitted.weights)[0]

    def score(self, pattern: Float[Tensor, "row key"], fitted: Fitted) -> float:
        """The objective of a mixture on these rows."""
        return float(self.shares(pattern, fitted).objective(self.stress))

    def shares(self, pattern: Float[Tensor, "row key"], fitted: Fitted) -> Shares:
        return shares(pattern, self.mixture(fitted))

    def alone(self, pattern: Float[Tensor, "row key"]) -> Float[Tensor, "measure rule"]:
        """The share explained and the share of the rest of each rule as the only one."""
        found = []
        for index in range(len(self)):
            rule, applies = self.at(index)
            mixture = rule.clone()
            mixture[~applies, 0] = 1.0
            common = shares(pattern, mixture)
            found.append(torch.stack((common.explained(), common.of_the_rest())))
        return torch.stack(found, dim=1)

    def slopes(self, pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "row key"]) -> Float[Tensor, " rule"]:
        """How the objective grows with the weight of each rule, at weight zero."""
        _, taken, gain = _climb(pattern, mixture, self.stress)
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
    mixture = candidates.mixture(before)
    slopes = candidates.slopes(pattern, mixture)
    slopes[before.rules] = -torch.inf
    tried = [
        (rule, *_line_search(pattern, mixture, candidates, rule))
        for rule in sorted(slopes.topk(min(SHORTLIST, len(slopes) - len(before.rules))).indices.tolist())
    ]
    best = max(gained for _, _, gained in tried)
    if best <= 0:
        return None
    rule, step, _ = next(entry for entry in tried if entry[2] >= best - TIE)
    weights = torch.cat((before.weights * (1 - step), before.weights.new_tensor([step])))
    grown = refit(pattern, candidates, [*before.rules, rule], weights)
    return grown if grown.objective > before.objective else None


def _line_search(
    pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "row key"], candidates: Candidates, index: int
) -> tuple[float, float]:
    """The best weight of a rule added to a mixture, and how much the objective grows there, on some of the rows."""
    rule, applies = candidates.at(index)
    pattern, mixture, rule, applies = (each[::STRIDE] for each in (pattern, mixture, rule, applies))
    steps = torch.tensor((0.0, *STEPS), device=pattern.device)[:, None, None] * applies[:, None]
    objective = shares(pattern, torch.addcmul(mixture, steps, rule - mixture)).objective(candidates.stress)
    best = int(objective[1:].argmax())
    return STEPS[best], float(objective[best + 1] - objective[0])


def refit(
    pattern: Float[Tensor, "row key"], candidates: Candidates, chosen: list[int], weights: Float[Tensor, " rule"]
) -> Fitted:
    """Improve the weights of these rules by exponentiated gradient; keep the best seen."""
    rules, applies = candidates.chosen(chosen)
    best, kept = -1.0, weights
    for iteration in range(ITERATIONS):
        mixture, total = _mixed(rules, applies, weights)
        objective, taken, gain = _climb(pattern, mixture, candidates.stress)
        if objective > best:
            best, kept = objective, weights
        slope = torch.einsum("rk,crk->cr", gain, rules) - taken * applies
        slope = (slope / total.clamp_min(TINY)).sum(-1)
        weights = weights * torch.exp((RATE * SLOWER**iteration * slope).clamp(-2, 2))
        weights = weights / weights.sum()
    order = kept.argsort(descending=True, stable=True)
    return Fitted([chosen[place] for place in order.tolist()], kept[order], best)


def _mixed(
    rules: Float[Tensor, "rule row key"], applies: Float[Tensor, "rule row"], weights: Float[Tensor, " rule"]
) -> tuple[Float[Tensor, "row key"], Float[Tensor, " row"]]:
    """A mixture where each rule yields its weight in rows without a target, and the weight that applies in each row."""
    held = weights[:, None] * applies
    total = held.sum(0)
    mixture = ((held / total.clamp_min(TINY))[..., None] * rules).sum(0)
    mixture[total <= TINY, 0] = 1.0
    return mixture, total


def _climb(
    pattern: Float[Tensor, "row key"], mixture: Float[Tensor, "row key"], stress: float
) -> tuple[float, Float[Tensor, " row"], Float[Tensor, "row key"]]:
    """The objective, its gradient by cell, and that gradient's mean under the mixture, which a new rule takes from."""
    wanted, made = pattern[:, 1:], mixture[:, 1:]
    beside, left = wanted.sum(-1), made.sum(-1)
    per_row = beside / (2 * beside.sum().clamp_min(TINY))
    scaled = made * (beside / left.clamp_min(TINY))[:, None]
    objective = torch.minimum(pattern, mixture).sum() * (stress / (2 * len(pattern)))
    objective += torch.minimum(wanted, scaled).sum() / (2 * beside.sum().clamp_min(TINY))
    gain = (mixture < pattern) * (stress / (2 * len(pattern)))
    wanting = (scaled < wanted).to(pattern.dtype)
    common = torch.linalg.vecdot(wanting, scaled) / beside.clamp_min(TINY)
    slope = per_row / left.clamp_min(1e-3)
    gain[:, 1:].addcmul_(wanting, slope[:, None]).sub_((slope * common)[:, None])
    return float(objective), torch.linalg.vecdot(gain, mixture), gain
