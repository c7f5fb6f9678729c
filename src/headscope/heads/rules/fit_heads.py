"""Fit every head on some texts, choose on others: a mixture of rules, one with a class table, one of position alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.heads.rules import class_table
from headscope.heads.rules.class_table import DISTANCES, ClassTable, fit_table
from headscope.heads.rules.fit import Candidates, Fitted, fit_path, shares
from headscope.heads.rules.mixture import Mixture
from headscope.heads.rules.rule import Rule
from headscope.heads.rules.sampled_rows import Sample
from headscope.names import Head

MOST_RULES = 4
PENALTY = 0.005
"""What a rule has to add to the objective on the choosing texts to be kept."""
MOST_STRESS = 10.0
"""The share explained counts 1 / (1 − S₀) times, but not more than this: a head that position explains is explained."""


@dataclass(frozen=True)
class HeadFit:
    """The mixtures of one head. ``positions`` are the best of position alone with up to 1, 2, 3 and 4 rules."""

    full: Mixture
    plain: Mixture
    """Without a class table."""
    positions: tuple[Mixture, ...]
    null: Mixture
    """Fitted and chosen with the labels of shuffled tokens."""

    def position(self, n_rules: int) -> Mixture:
        """The best mixture of position alone with as many rules."""
        return self.positions[min(n_rules, len(self.positions)) - 1]


@dataclass(frozen=True)
class Samples:
    """Rows for fitting and rows for choosing, as they are and with the labels of shuffled tokens."""

    fit: Sample
    choose: Sample
    null_fit: Candidates
    null_choose: Candidates


class HeadFitter:
    """Fits one head after the other; what depends on texts and rules alone is made once."""

    def __init__(self, rules: Sequence[Rule], samples: Samples, tables: bool = True) -> None:
        self.rules, self.samples, self.tables = tuple(rules), samples, tables
        self.n_position = sum(rule.position for rule in rules)
        self.fit, self.choose = Candidates.of(samples.fit.rules), Candidates.of(samples.choose.rules)

    def fit_all(self, heads: Sequence[Head], workers: int) -> dict[Head, HeadFit]:
        """All heads, several at a time: the work of one is too small for several threads."""
        found: dict[Head, HeadFit] = {}
        with ThreadPoolExecutor(max_workers=workers) as pool:
            for head, fitted in zip(heads, pool.map(self.fit_head, heads), strict=True):
                found[head] = fitted
                report_progress("fitting rules", len(found), len(heads))
        return found

    @torch.no_grad()
    def fit_head(self, head: Head) -> HeadFit:
        pattern = self.samples.fit.patterns[head.site][head.head]
        other = self.samples.choose.patterns[head.site][head.head]
        alone = self.fit.alone(pattern)
        stress = min(MOST_STRESS, 1 / max(1 - float(alone[0, : self.n_position].max()), 1e-3))
        fit, choose = self.fit.stressed(stress), self.choose.stressed(stress)
        path = fit_path(pattern, fit, MOST_RULES, alone)
        by_position = fit_path(pattern, fit.first(self.n_position), MOST_RULES, alone[:, : self.n_position])
        by_position += [fitted for fitted in path if max(fitted.rules) < self.n_position]
        plain = self._choose(other, [*path, *by_position], choose)
        return HeadFit(
            full=self._with_table((pattern, other), (fit, choose), alone, plain)
            if self.tables
            else self._named(plain[0]),
            plain=self._named(plain[0]),
            positions=self._best_positions(other, by_position, choose),
            null=self._null((pattern, other), alone, stress, by_position),
        )

    def _null(
        self, patterns: tuple[Tensor, Tensor], alone: Tensor, stress: float, by_position: list[Fitted]
    ) -> Mixture:
        """The same, with rules that read the labels of shuffled tokens."""
        fit, choose = self.samples.null_fit.stressed(stress), self.samples.null_choose.stressed(stress)
        scores = torch.cat((alone[:, : self.n_position], fit.after(self.n_position).alone(patterns[0])), dim=1)
        path = fit_path(patterns[0], fit, MOST_RULES, scores)
        return self._named(self._choose(patterns[1], [*path, *by_position], choose)[0])

    def _choose(
        self, pattern: Float[Tensor, "row key"], path: Sequence[Fitted], candidates: Candidates
    ) -> tuple[Fitted, float]:
        """The mixture with the highest objective on the choosing texts, after the penalty."""
        complete = [self._complete(fitted, candidates) for fitted in path]
        scored = [
            (candidates.score(pattern, fitted) - PENALTY * len(fitted.rules), fitted)
            for fitted in complete
            if len(fitted.rules) <= MOST_RULES
        ]
        score, best = max(scored, key=lambda entry: entry[0])
        return best, score

    def _complete(self, fitted: Fitted, candidates: Candidates) -> Fitted:
        """Where no rule applies, the first token does: that counts as a rule, if with no weight beside others."""
        applies = candidates.chosen(fitted.rules)[1]
        if 0 in fitted.rules or bool((applies.sum(0) > 0).all()):
            return fitted
        return Fitted([*fitted.rules, 0], torch.cat((fitted.weights, fitted.weights.new_zeros(1))), fitted.objective)

    def _with_table(
        self, patterns: tuple[Tensor, Tensor], candidates: tuple[Candidates, Candidates], alone: Tensor,
        plain: tuple[Fitted, float],
    ) -> Mixture:  # fmt: skip
        """The mixture that may use a class table; the one without where that is no better."""
        cells, stress = self.samples.fit.cells, candidates[0].stress
        tables = [fit_table(patterns[0], cells, near) for near in DISTANCES]
        common = [shares(patterns[0], rows) for _, rows in tables]
        at = max(range(len(tables)), key=lambda index: float(common[index].objective(stress)))
        table, rows = tables[at]
        fit = candidates[0].with_table(rows)
        choose = candidates[1].with_table(table.rows(self.samples.choose.cells))
        own = torch.stack((common[at].explained(), common[at].of_the_rest()))[:, None]
        path = fit_path(patterns[0], fit, MOST_RULES, torch.cat((torch.zeros_like(alone), own), dim=1))
        chosen, score = self._choose(patterns[1], path, choose)
        return self._named(chosen, table) if score > plain[1] else self._named(plain[0])

    def _best_positions(
        self, other: Float[Tensor, "row key"], path: Sequence[Fitted], candidates: Candidates
    ) -> tuple[Mixture, ...]:
        """For each number of rules, the best mixture of position alone with at most so many, on the choosing texts."""
        scored = [(candidates.score(other, fitted), fitted) for fitted in path]
        return tuple(
            self._named(max((s for s in scored if len(s[1].rules) <= size), key=lambda entry: entry[0])[1])
            for size in range(1, MOST_RULES + 1)
        )

    def _named(self, fitted: Fitted, table: ClassTable | None = None) -> Mixture:
        names = [self.rules[index].name if index < len(self.rules) else class_table.NAME for index in fitted.rules]
        weights = [round(weight, 4) for weight in fitted.weights.tolist()]
        kept = [place for place, weight in enumerate(weights) if weight > 0 or fitted.rules[place] == 0]
        chosen = tuple(names[place] for place in kept)
        total = sum(weights[place] for place in kept)
        scaled = tuple(weights[place] / total for place in kept)
        return Mixture(chosen, scaled, table if class_table.NAME in chosen else None)
