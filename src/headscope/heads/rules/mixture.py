"""A mixture of rules: what a head's pattern is described by, and the distribution it gives for rows of any text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.questions.token_features import TokenFeatures
from headscope.heads.rules import class_table, short_context
from headscope.heads.rules.class_table import Cells, ClassTable
from headscope.heads.rules.fit import TINY, mixed
from headscope.heads.rules.rule import FIRST_TOKEN, Rule, Targeted

LEARNED = (class_table.NAME, short_context.NAME)
"""Rules that every head has of its own."""


@dataclass(frozen=True)
class Mixture:
    """Rules by name, heaviest first, with weights that add up to 1. Where no rule has a target: the first token.

    A rule without a target in a row yields its weight to the others there, in proportion to theirs.
    """

    rules: tuple[str, ...]
    weights: tuple[float, ...]
    table: ClassTable | None = None

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def in_context(self) -> bool:
        """Whether it needs the pattern in short context."""
        return short_context.NAME in self.rules


class Drawn:
    """The distributions of all rules that some mixtures use, for some rows of one text."""

    def __init__(
        self,
        used: Sequence[Rule],
        text: TokenFeatures,
        rows: Int[Tensor, " row"],
        visible: Bool[Tensor, "row key"],
        targeted: Targeted | None = None,
    ) -> None:
        self._at = {rule.name: index for index, rule in enumerate(used)}
        self._block = (targeted or Targeted(used, text, rows.device)).block(rows, visible)
        self._applies = self._block.sum(-1) > 0
        self._everywhere = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        self._cells = Cells.of(text, rows, visible)

    def parts(self, mixture: Mixture, context: Float[Tensor, "row key"] | None = None) -> Float[Tensor, "rule row key"]:
        """Each rule's part of a mixture, and last the rows that none applies to; together they add up to 1 in a row.

        ``context`` is the head's pattern in short context, for mixtures that use it.
        """
        rules = torch.stack([self.rule(name, mixture, context) for name in mixture.rules])
        held = torch.tensor(mixture.weights, device=rules.device)[:, None] * self._has_target(mixture)
        total = held.sum(0)
        left = torch.zeros_like(rules[0])
        left[total <= TINY, 0] = 1.0
        return torch.cat((rules * (held / total.clamp_min(TINY))[..., None], left[None]))

    def mixture(self, mixture: Mixture, context: Float[Tensor, "row key"] | None = None) -> Float[Tensor, "row key"]:
        """The parts together."""
        rules = [self.rule(name, mixture, context) for name in mixture.rules]
        weights = torch.tensor(mixture.weights, device=self._applies.device)
        return mixed(rules, self._has_target(mixture), weights)[0]

    def _has_target(self, mixture: Mixture) -> Bool[Tensor, "rule row"]:
        """In which rows each rule of a mixture applies; what is a head's own does in all."""
        return torch.stack(
            [self._everywhere if name in LEARNED else self._applies[self._at[name]] for name in mixture.rules]
        )

    def rule(self, name: str, mixture: Mixture, context: Tensor | None = None) -> Float[Tensor, "row key"]:
        """The distribution of one rule of a mixture; rows without a target are zero."""
        if name == short_context.NAME:
            assert context is not None, "a mixture in short context needs its pattern"
            return context
        if name == class_table.NAME and mixture.table is not None:
            return mixture.table.rows(self._cells)
        return self._block[self._at[name]]


def rules_used(mixtures: Sequence[Mixture], known: Mapping[str, Rule]) -> tuple[Rule, ...]:
    """The rules that these mixtures name, each once."""
    names = dict.fromkeys(name for each in mixtures for name in each.rules if name not in LEARNED)
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(
            f"{', '.join(map(repr, missing))}: rules of your own are not in a file; give them again with rules=[…]"
        )
    return tuple(known[name] for name in names)


ONLY_FIRST = Mixture((FIRST_TOKEN,), (1.0,))
"""Rest on the first token and do nothing else."""
