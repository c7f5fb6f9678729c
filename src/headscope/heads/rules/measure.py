"""Measure mixtures on texts that they were not fitted on: every row from the 16th on, exactly, a few rows at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.heads.bootstrap import RESAMPLES, percentile_interval
from headscope.heads.rules.fit import TINY, shares
from headscope.heads.rules.fit_heads import MOST_RULES, HeadFit
from headscope.heads.rules.mixture import Drawn, Mixture, rules_used
from headscope.heads.rules.report import Example
from headscope.heads.rules.rule import Rule, Targeted
from headscope.heads.rules.sampled_rows import CELLS, FIRST_ROW, Block, Text, read_patterns, visible_hash
from headscope.models.protocol import OpenModel
from headscope.names import Head

EXAMPLES = 3
VARIANTS = ("rules", "position", "table", "table_position", "context", "null")
"""Rules; position alone beside them; with a class table; position beside that; in short context; shuffled labels."""


@dataclass
class Sums:
    """Sums over the rows of each document, one column per head. Means appear only when they are asked for."""

    rows: Float[Tensor, "document head"]
    first: Float[Tensor, "document head"]
    beside: Float[Tensor, "document head"]
    whole: Float[Tensor, "variant document head"]
    rest: Float[Tensor, "variant document head"]
    parts: Float[Tensor, "rule document head"]
    """Mass beside the first key that each rule has in common with the pattern."""
    applies: Float[Tensor, "rule document head"]
    alone: Float[Tensor, "document head"]
    """In the rows with a target: mass that the heaviest rule alone has in common with the pattern, …"""
    chance: Float[Tensor, "document head"]
    """… and with equal weights on all keys."""
    examples: list[list[Example]] = field(init=False, default_factory=list)
    """By head, strongest first: where it attends most beyond what its rules say."""

    @classmethod
    def zero(cls, documents: int, heads: int) -> Sums:
        fronts: tuple[tuple[int, ...], ...] = (
            (), (), (), (len(VARIANTS),), (len(VARIANTS),), (MOST_RULES,), (MOST_RULES,), (), ()
        )  # fmt: skip
        found = cls(*(torch.zeros(*front, documents, heads, dtype=torch.float64) for front in fronts))
        found.examples = [[] for _ in range(heads)]
        return found

    def add_example(self, head: int, example: Example) -> None:
        """Keep the strongest few, each pair of tokens once."""
        strongest: dict[tuple[str, str], Example] = {}
        for each in sorted((*self.examples[head], example), key=_beyond, reverse=True):
            strongest.setdefault(each.tokens, each)
        self.examples[head] = list(strongest.values())[:EXAMPLES]

    def explained(self, variant: str, counts: Tensor) -> Float[Tensor, "draw head"]:
        """1 − total variation, with documents drawn so many times."""
        return (counts @ self.whole[VARIANTS.index(variant)]) / (counts @ self.rows).clamp_min(TINY)

    def of_the_rest(self, variant: str, counts: Tensor) -> Float[Tensor, "draw head"]:
        return (counts @ self.rest[VARIANTS.index(variant)]) / (counts @ self.beside).clamp_min(TINY)

    def gain(self, variant: str, base: str, counts: Tensor) -> Float[Tensor, "draw head"]:
        explained, other = self.explained(variant, counts), self.explained(base, counts)
        return (explained - other) / (1 - other).clamp_min(TINY)

    def all_documents(self) -> Float[Tensor, "draw document"]:
        return torch.ones(1, len(self.rows), dtype=torch.float64)

    def each_document(self) -> Float[Tensor, "draw document"]:
        return torch.eye(len(self.rows), dtype=torch.float64)

    def draws(self, seed: int) -> Float[Tensor, "draw document"]:
        """How often each document is drawn in each bootstrap replicate."""
        n = len(self.rows)
        drawn = torch.randint(n, (RESAMPLES, n), generator=torch.Generator().manual_seed(seed))
        return torch.zeros(RESAMPLES, n, dtype=torch.float64).scatter_add_(1, drawn, torch.ones_like(drawn).double())

    def interval(self, replicates: Float[Tensor, "draw head"]) -> tuple[Tensor, Tensor]:
        return percentile_interval(replicates)


class Measurer:
    """The mixtures of every head, measured on one text after the other."""

    def __init__(self, fits: Mapping[Head, HeadFit], known: Mapping[str, Rule]) -> None:
        self.heads = list(fits)
        self.mixtures = [_variants(fits[head]) for head in self.heads]
        self.same_as = [_numbered(each) for each in self.mixtures]
        """Variants that are the same mixture have the same number; the null is always one of its own."""
        self._short = any(mixture.in_context for each in self.mixtures for mixture in each)
        self._at = {head: column for column, head in enumerate(self.heads)}
        self._used = rules_used([mixture for each in self.mixtures for mixture in each[:-1]], known)
        self._null = rules_used([each[-1] for each in self.mixtures], known)

    def measure(self, model: OpenModel, texts: Sequence[tuple[Text, Text]]) -> Sums:
        """Sums over these texts, each with itself under the labels of shuffled tokens."""
        sums = Sums.zero(len(texts), len(self.heads))
        sites = list(dict.fromkeys(head.site for head in self.heads))
        for document, (text, shuffled) in enumerate(texts):
            report_progress("measuring rules", document, len(texts))
            reader = _Reader(self, text, shuffled, sums, document)
            rows = torch.arange(min(FIRST_ROW, len(text.features) - 1), len(text.features))
            read_patterns(model, text, sites, rows, reader.take, self._short)
        return sums


class _Reader:
    """Adds the rows of one document."""

    def __init__(self, measurer: Measurer, text: Text, shuffled: Text, sums: Sums, document: int) -> None:
        self.measurer, self.text, self.shuffled, self.sums, self.document = measurer, text, shuffled, sums, document
        self._targeted: tuple[Targeted, Targeted] | None = None
        self._drawn: dict[tuple[int, int, int], tuple[Drawn, Drawn]] = {}

    def take(self, block: Block) -> None:
        drawn = self._draw(block)
        for head in range(len(block.weights)):
            column = self.measurer._at.get(Head(block.site, head))
            if column is not None:
                self._add(head, column, block, drawn)

    def _draw(self, block: Block) -> tuple[Drawn, Drawn]:
        """Distributions of these rows, made once for all sites that see the same keys in the same blocks of a text."""
        span = (int(block.rows[0]), len(block.rows), visible_hash(block.visible))
        if span not in self._drawn:
            device = block.rows.device
            used, unused = self.measurer._used, self.measurer._null
            if self._targeted is None:
                self._targeted = (
                    Targeted(used, self.text.labelled, device), Targeted(unused, self.shuffled.labelled, device)
                )  # fmt: skip
            own = Drawn(used, self.text.labelled, block.rows, block.visible, self._targeted[0])
            null = Drawn(unused, self.shuffled.labelled, block.rows, block.visible, self._targeted[1])
            cells = (len(used) + len(unused)) * block.visible.numel()
            if (len(self._drawn) + 1) * cells > 2 * CELLS:
                self._drawn.clear()
            self._drawn[span] = (own, null)
        return self._drawn[span]

    def _add(self, head: int, column: int, block: Block, both: tuple[Drawn, Drawn]) -> None:
        drawn, null = both
        pattern, context = block.weights[head], None if block.context is None else block.context[head]
        sums, at = self.sums, (self.document, column)
        sums.rows[at] += len(pattern)
        sums.first[at] += float(pattern[:, 0].sum())
        mixtures = self.measurer.mixtures[column]
        parts = drawn.parts(mixtures[0])
        mixture, same_as = parts.sum(0), self.measurer.same_as[column]
        made = [mixture]
        for index in range(1, len(mixtures)):
            if same_as[index] == len(made):
                source = null if VARIANTS[index] == "null" else drawn
                made.append(source.mixture(mixtures[index], context))
        found = shares(pattern, torch.stack(made))
        sums.whole[:, *at] += found.whole.sum(-1)[same_as]
        sums.rest[:, *at] += found.rest.sum(-1)[same_as]
        sums.beside[at] += float(found.beside.sum())
        self._add_parts(column, pattern, parts, mixture)
        self._add_alone(column, pattern, drawn.rule(mixtures[0].rules[0], mixtures[0]), block)
        self._add_example(column, pattern, mixture, block)

    def _add_example(self, column: int, pattern: Tensor, mixture: Float[Tensor, "row key"], block: Block) -> None:
        """The cell of this block where the head attends most beyond its rules; never the first token or itself."""
        beyond = (pattern - mixture)[:, 1:]
        beyond[torch.arange(len(beyond)), (block.rows - 1).clamp(0, beyond.shape[1] - 1)] = -1.0
        row, key = divmod(int(beyond.argmax()), beyond.shape[1])
        query = int(block.rows[row])
        weight, by_rules = (round(float(part[row, key + 1]), 4) for part in (pattern, mixture))
        texts = self.text.features.texts
        self.sums.add_example(column, Example(texts[query], texts[key + 1], weight, by_rules))

    def _add_parts(
        self, column: int, pattern: Tensor, parts: Float[Tensor, "rule row key"], mixture: Float[Tensor, "row key"]
    ) -> None:
        """Share what mixture and pattern have in common among the rules, cell by cell."""
        wanted, made = pattern[:, 1:], mixture[:, 1:]
        ratio = wanted.sum(-1, keepdim=True) / made.sum(-1, keepdim=True).clamp_min(TINY)
        common = torch.minimum(wanted, made * ratio) / made.clamp_min(TINY)
        shared = torch.einsum("crk,rk->c", parts[:-1, :, 1:], common)
        applies = (parts[:-1].sum(-1) > 0).sum(-1)
        self.sums.parts[: len(shared), self.document, column] += shared
        self.sums.applies[: len(shared), self.document, column] += applies

    def _add_alone(self, column: int, pattern: Tensor, rule: Float[Tensor, "row key"], block: Block) -> None:
        """What the heaviest rule has in common with the pattern, and with equal weights, in rows with a target."""
        even = block.visible / block.visible.sum(-1, keepdim=True).clamp_min(1)
        at = (self.document, column)
        self.sums.alone[at] += float(torch.minimum(pattern, rule).sum())
        self.sums.chance[at] += float(torch.minimum(even, rule).sum())


def _beyond(example: Example) -> float:
    return example.weight - example.by_rules


def _numbered(mixtures: Sequence[Mixture]) -> list[int]:
    """A number for each mixture in the order of their first appearance; the last one reads other labels."""
    seen: dict[Mixture | None, int] = {}
    return [seen.setdefault(mixture, len(seen)) for mixture in (*mixtures[:-1], None)]


def _variants(fit: HeadFit) -> tuple[Mixture, ...]:
    """Position alone gets as many rules as it is compared with; beside what a head has of its own, all it may."""
    learned = fit.full.table is not None or fit.context != fit.full
    beside_table = MOST_RULES if learned else len(fit.full)
    return (fit.plain, fit.position(len(fit.plain)), fit.full, fit.position(beside_table), fit.context, fit.null)
