"""Turn sums over documents into what is reported of every head: shares, gains, nulls, and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from headscope.heads.rules.fit_heads import HeadFit
from headscope.heads.rules.measure import Sums
from headscope.heads.rules.mixture import Mixture
from headscope.heads.rules.report import HeadRules, Learned, Measure, RulePart
from headscope.heads.rules.rule import Rule
from headscope.names import Head


class Summary:
    """Every measure of every head, over all documents, over draws of them, and in each."""

    def __init__(
        self,
        fits: Mapping[Head, HeadFit],
        sums: Sums,
        known: Mapping[str, Rule],
        seed: int,
        mean_z: Mapping[Head, tuple[float, ...]],
    ) -> None:
        self.mean_z = mean_z
        self.fits, self.sums, self.known, self.seed = fits, sums, known, seed
        variants = ("rules", "position", "table", "table_position", "context")
        self.explained = {name: self._measured(self._explained(name)) for name in variants}
        self.rest = {
            name: self._measured(self._of_the_rest(name)) for name in ("rules", "position", "table", "context")
        }
        pairs = (("rules", "position"), ("table", "table_position"), ("null", "position"),
                 ("context", "table_position"))  # fmt: skip
        self.gains = {name: self._measured(self._gain(name, base)) for name, base in pairs}

    def heads(self) -> tuple[HeadRules, ...]:
        return tuple(self._head(column, head, fit) for column, (head, fit) in enumerate(self.fits.items()))

    def _head(self, column: int, head: Head, fit: HeadFit) -> HeadRules:
        position = fit.position(len(fit.plain))
        weights = zip(position.rules, position.weights, strict=True)
        return HeadRules(
            head=head,
            first=_rounded(self.sums.first[:, column].sum() / self.sums.rows[:, column].sum()),
            rules=self._parts(column, fit),
            position=tuple((name, round(weight, 4)) for name, weight in weights),
            explained=self.explained["rules"][column],
            explained_by_position=self.explained["position"][column],
            rest=self.rest["rules"][column],
            rest_by_position=self.rest["position"][column],
            gain=self.gains["rules"][column],
            null_gain=self.gains["null"][column],
            alone=self._alone(column),
            with_table=self._learned(column, fit.full, "table"),
            in_context=self._learned(column, fit.context, "context"),
            examples=tuple(self.sums.examples[column]),
            mean_z=self.mean_z[head],
        )

    def _learned(self, column: int, mixture: Mixture, name: str) -> Learned:
        return Learned(
            mixture=mixture,
            explained=self.explained[name][column],
            explained_by_position=self.explained["table_position"][column],
            rest=self.rest[name][column],
            gain=self.gains[name][column],
        )

    def _parts(self, column: int, fit: HeadFit) -> tuple[RulePart, ...]:
        rows = self.sums.rows[:, column].sum()
        beside = self.sums.beside[:, column].sum().clamp_min(1e-9)
        applies, parts = self.sums.applies[:, :, column].sum(1), self.sums.parts[:, :, column].sum(1)
        return tuple(
            RulePart(
                name=name,
                phrase=self.known[name].phrase,
                weight=round(weight, 4),
                applies=1.0 if self.known[name].always else _rounded(applies[place] / rows),
                part=_rounded(parts[place] / beside),
                position=self.known[name].position,
            )
            for place, (name, weight) in enumerate(zip(fit.plain.rules, fit.plain.weights, strict=True))
        )

    def _alone(self, column: int) -> float:
        """What the heaviest rule alone explains in its rows, beyond equal weights on all keys; at least −1."""
        rows = self.sums.applies[0, :, column].sum().clamp_min(1)
        chance = float(self.sums.chance[:, column].sum() / rows)
        alone = float(self.sums.alone[:, column].sum() / rows)
        return _rounded(max(-1.0, (alone - chance) / max(1 - chance, 1e-3)))

    def _measured(self, measure: Callable[[Tensor], Tensor]) -> list[Measure]:
        value, each = measure(self.sums.all_documents())[0], measure(self.sums.each_document())
        low, high = self.sums.interval(measure(self.sums.draws(self.seed)))
        return [
            Measure(
                _rounded(value[head]), _rounded(low[head]), _rounded(high[head]), tuple(map(_rounded, each[:, head]))
            )
            for head in range(len(value))
        ]

    def _explained(self, name: str) -> Callable[[Tensor], Tensor]:
        return lambda counts: self.sums.explained(name, counts)

    def _of_the_rest(self, name: str) -> Callable[[Tensor], Tensor]:
        return lambda counts: self.sums.of_the_rest(name, counts)

    def _gain(self, name: str, base: str) -> Callable[[Tensor], Tensor]:
        return lambda counts: self.sums.gain(name, base, counts)


def _rounded(value: Any) -> float:
    return round(float(value), 4)
