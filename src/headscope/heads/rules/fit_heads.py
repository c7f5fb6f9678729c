"""Fit every head on some texts, choose on others: mixtures of rules, with a class table, in short context, of position.

A richer description is kept only where it is better on the choosing texts by more than its standard error over them,
and explains no less there, neither of the whole nor of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.heads.rules import class_table, short_context
from headscope.heads.rules.class_table import ClassTable, fit_table
from headscope.heads.rules.fit import TINY, Candidates, Fitted, fit_path, shares
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

    plain: Mixture
    """Rules of labels and distance."""
    full: Mixture
    """May use a class table."""
    context: Mixture
    """May use the pattern in short context, too."""
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


def families(rules: Sequence[Rule]) -> list[int]:
    """A number for each rule, the same for rules with the same targets."""
    seen: dict[tuple[bool, int], int] = {}
    return [seen.setdefault((rule.is_first_token, id(rule.labels)), len(seen)) for rule in rules]


class Own(NamedTuple):
    """A distribution of one head's own, on the rows for fitting and on those for choosing."""

    name: str
    fit: Float[Tensor, "row key"]
    choose: Float[Tensor, "row key"]


class Judged(NamedTuple):
    """A mixture on the choosing texts: its objective by row, and what it explains of the whole and of the rest."""

    fitted: Fitted
    by_row: Float[Tensor, " row"]
    explained: float
    rest: float

    @property
    def score(self) -> float:
        return float(self.by_row.mean()) - PENALTY * len(self.fitted.rules)


class HeadFitter:
    """Fits one head after the other; what depends on texts and rules alone is made once."""

    def __init__(self, rules: Sequence[Rule], samples: Samples, tables: bool = True) -> None:
        self.rules, self.samples, self.tables = tuple(rules), samples, tables
        self.n_position = sum(rule.position for rule in rules)

    @cached_property
    def candidates(self) -> tuple[Candidates, Candidates]:
        known = families(self.rules)
        return Candidates.of(self.samples.fit.rules, known), Candidates.of(self.samples.choose.rules, known)

    @torch.no_grad()
    def fit_head(self, head: Head, pause: Callable[[], None] = lambda: None) -> HeadFit:
        """All mixtures of one head. ``pause`` is called between them, and may raise to stop."""
        return _OneHead(self, head, pause).fit()


class _OneHead:
    """The rows of one head, and what is fitted to them."""

    def __init__(self, fitter: HeadFitter, head: Head, pause: Callable[[], None]) -> None:
        samples = fitter.samples
        self.fitter, self.head, self.pause = fitter, head, pause
        self.pattern, self.other = (part.patterns[head.site][head.head] for part in (samples.fit, samples.choose))
        fit, choose = fitter.candidates
        self.alone = fit.alone(self.pattern)
        self.n_position = fitter.n_position
        unexplained = 1 - float(self.alone[0, : self.n_position].max())
        self.stress = min(MOST_STRESS, 1 / max(unexplained, 1e-3))
        self.rows, self.choosing = fit.stressed(self.stress), choose.stressed(self.stress)
        lengths = torch.tensor([len(rows) for rows in samples.choose.rows], device=self.other.device)
        self.document = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)

    def fit(self) -> HeadFit:
        path = fit_path(self.pattern, self.rows, MOST_RULES, self.alone)
        self.pause()
        by_position = fit_path(
            self.pattern, self.rows.first(self.n_position), MOST_RULES, self.alone[:, : self.n_position]
        )
        by_position += [fitted for fitted in path if max(fitted.rules) < self.n_position]
        self.positions = self._best_positions(by_position)
        self.pause()
        plain = self._choose([*path, *by_position], self.choosing)
        table, full, table_own = self._with_table(plain) if self.fitter.tables else (None, plain, ())
        self.pause()
        context, context_own = self._in_context(full, table_own)
        self.pause()
        return HeadFit(
            plain=self._named(plain.fitted),
            full=self._named(full.fitted, table_own, table),
            context=self._named(context.fitted, context_own, table),
            positions=tuple(self._named(judged.fitted) for judged in self.positions),
            null=self._null(by_position),
        )

    def _null(self, by_position: list[Fitted]) -> Mixture:
        """The same, with rules that read the labels of shuffled tokens."""
        samples, n_position = self.fitter.samples, self.n_position
        fit, choose = samples.null_fit.stressed(self.stress), samples.null_choose.stressed(self.stress)
        scores = torch.cat((self.alone[:, :n_position], fit.after(n_position).alone(self.pattern)), dim=1)
        path = fit_path(self.pattern, fit, MOST_RULES, scores)
        return self._named(self._choose([*path, *by_position], choose).fitted)

    def _choose(self, path: Sequence[Fitted], candidates: Candidates, beside: Judged | None = None) -> Judged:
        """The highest objective on the choosing texts, after the penalty, among mixtures that are clearly better.

        Better than ``beside``, or than position alone with as many rules, which is always there to be chosen.
        """
        judged = [self._judge(self._complete(fitted, candidates), candidates) for fitted in path]
        by_position = [each for each in judged if max(each.fitted.rules) < self.n_position]
        clear = [
            each
            for each in judged
            if len(each.fitted.rules) <= MOST_RULES
            and self._clearly(each, beside or self.positions[len(each.fitted.rules) - 1])
        ]
        allowed = [*clear, *([beside] if beside is not None else by_position)]
        return max(allowed, key=lambda each: each.score)

    def _clearly(self, one: Judged, other: Judged) -> bool:
        """Whether a mixture is better by more than a standard error over documents, and nowhere worse."""
        if one.explained < other.explained or one.rest < other.rest:
            return False
        difference = one.by_row - other.by_row
        count = int(self.document[-1]) + 1
        means = difference.new_zeros(count).index_add_(0, self.document, difference)
        means = means / torch.bincount(self.document, minlength=count)
        error = float(means.std() / count**0.5) if count > 1 else 0.0
        return float(means.mean()) > error

    def _judge(self, fitted: Fitted, candidates: Candidates) -> Judged:
        found = candidates.shares(self.other, fitted)
        weighted = found.rest * (len(found.rest) / found.beside.sum().clamp_min(TINY))
        by_row = (found.whole * self.stress + weighted) / 2
        return Judged(fitted, by_row, float(found.explained()), float(found.of_the_rest()))

    def _complete(self, fitted: Fitted, candidates: Candidates) -> Fitted:
        """Where no rule applies, the first token does: that counts as a rule, if with no weight beside others."""
        applies = candidates.chosen(fitted.rules)[1]
        if 0 in fitted.rules or bool((applies.sum(0) > 0).all()):
            return fitted
        return Fitted([*fitted.rules, 0], torch.cat((fitted.weights, fitted.weights.new_zeros(1))), fitted.objective)

    def _with_table(self, plain: Judged) -> tuple[ClassTable, Judged, tuple[Own, ...]]:
        """The mixture that may use a class table; the one without where that is no better."""
        samples = self.fitter.samples
        table, rows = fit_table(self.pattern, samples.fit.cells)
        own = (Own(class_table.NAME, rows, table.rows(samples.choose.cells)),)
        return table, self._with_own(own, plain), own

    def _in_context(self, full: Judged, table: tuple[Own, ...]) -> tuple[Judged, tuple[Own, ...]]:
        """The mixture that may use the pattern in short context as well."""
        samples, head = self.fitter.samples, self.head
        if head.site not in samples.fit.context:
            return full, table
        fit, choose = (part.context[head.site][head.head] for part in (samples.fit, samples.choose))
        own = (*table, Own(short_context.NAME, fit, choose))
        return self._with_own(own, full), own

    def _with_own(self, own: tuple[Own, ...], beside: Judged) -> Judged:
        """The best mixture that begins with the last of what is the head's own, where it is clearly better."""
        fit = self.rows.with_own(*(each.fit for each in own))
        found = shares(self.pattern, own[-1].fit)
        alone = torch.zeros(2, len(fit), device=self.pattern.device)
        alone[:, -1] = torch.stack((found.explained(), found.of_the_rest()))
        path = fit_path(self.pattern, fit, MOST_RULES, alone)
        return self._choose(path, self.choosing.with_own(*(each.choose for each in own)), beside)

    def _best_positions(self, path: Sequence[Fitted]) -> list[Judged]:
        """For each number of rules, the best mixture of position alone with at most so many, on the choosing texts."""
        judged = [self._judge(fitted, self.choosing) for fitted in path]
        return [
            max((each for each in judged if len(each.fitted.rules) <= size), key=lambda each: float(each.by_row.mean()))
            for size in range(1, MOST_RULES + 1)
        ]

    def _named(self, fitted: Fitted, own: tuple[Own, ...] = (), table: ClassTable | None = None) -> Mixture:
        known = [*(rule.name for rule in self.fitter.rules), *(each.name for each in own)]
        names = [known[index] for index in fitted.rules]
        weights = [round(weight, 4) for weight in fitted.weights.tolist()]
        kept = [place for place, weight in enumerate(weights) if weight > 0 or fitted.rules[place] == 0]
        chosen = tuple(names[place] for place in kept)
        total = sum(weights[place] for place in kept)
        scaled = tuple(weights[place] / total for place in kept)
        return Mixture(chosen, scaled, table if class_table.NAME in chosen else None)
