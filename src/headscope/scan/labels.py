"""Label a batch of packed rows with questions: which queries can answer each one, and what shuffled labels would give.

The null of a question has the same labels, shuffled among the keys that a query may attend to. Its mean over all
shuffles needs no shuffling: if m of n keys match, each key matches with probability m/n, whatever the head does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LARGEST_LABEL, LabelRule
from headscope.heads.questions.standard_questions import STANDARD, MatchingKeys, matching_keys
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.packing import PackedRows, RowFormat, without_waiting


class BatchQuestion(NamedTuple):
    """A question's labels for a batch, and the number of keys that match each query."""

    question: Question
    matching: MatchingKeys


@dataclass(frozen=True)
class Labels:
    """All questions of a batch. ``counted`` leaves out padding, added tokens, and queries that see only themselves."""

    questions: dict[str, BatchQuestion]
    counted: Bool[Tensor, "row position"]
    visible: Int[Tensor, "row position"]
    """The number of keys in the piece."""
    visible_before: Int[Tensor, "row position"]
    """The number of them up to the query."""

    def within_pieces(self) -> dict[str, Question]:
        """The questions in 32 bits. Labels of different pieces may be equal: for keys within a piece of their own."""
        return {
            name: Question(_narrow(asked.question.query), _narrow(asked.question.key), asked.question.exclude_self)
            for name, asked in self.questions.items()
        }

    def answerable(self, name: str, causal: bool) -> Bool[Tensor, "row position"]:
        """The queries that have a matching key."""
        return self.counted & (self.questions[name].matching.visible(causal) > 0)

    def match_share(self, name: str, causal: bool) -> Float[Tensor, "row position"]:
        """The share of the keys a query may attend to that match."""
        question, matching = self.questions[name]
        others = (self.visible_before if causal else self.visible) - int(question.exclude_self)
        return matching.visible(causal) / others.clamp(min=1)


def null_name(name: str) -> str:
    return f"{name} (shuffled)"


def question_names(rules: Sequence[LabelRule]) -> tuple[str, ...]:
    return (*STANDARD, *(rule.name for rule in rules))


def label_batch(
    rows: PackedRows,
    row_format: RowFormat,
    rules: Sequence[LabelRule],
    model: OpenModel,
    device: torch.device | str = "cpu",
) -> Labels:
    """Label a batch, all pieces at once. Labels of different pieces are never equal. Nothing waits for a GPU."""
    placed = rows.on(torch.device(device))
    positions, pieces = placed.positions, placed.piece_ids
    questions = _standard_questions(placed.ids, positions, pieces)
    questions |= {rule.name: _rule_question(rows, rule, model).to(device) for rule in rules}
    before, after = max(len(row_format.tokens_before), 1), len(row_format.tokens_after)
    # The last entry is that of padding, whose piece is −1.
    lengths = torch.tensor([*(piece.stop - piece.start for piece in rows.pieces), 0])
    visible = without_waiting(lengths, torch.device(device))[pieces]
    counted = (positions >= before) & (positions < visible - after)
    largest = (len(rows.pieces) + 1) * LARGEST_LABEL
    matched = {name: BatchQuestion(question, matching_keys(question, largest)) for name, question in questions.items()}
    return Labels(matched, counted, visible, positions + 1)


def _standard_questions(
    ids: Int[Tensor, "row position"], positions: Int[Tensor, "row position"], pieces: Int[Tensor, "row position"]
) -> dict[str, Question]:
    """The five of ``standard_questions`` inside every piece, with labels in a range of the piece's own."""
    inside, base = pieces >= 0, pieces * LARGEST_LABEL
    place, token, first = ((base + label).where(inside, -1) for label in (positions, ids, torch.zeros_like(ids)))
    begins = positions == 0
    before = token.roll(1, dims=1).masked_fill(begins | ~inside, -1)
    return {
        "previous": Question((place - 1).masked_fill(begins | ~inside, -1), place),
        "itself": Question(place, place),
        "first": Question(first, place),
        "duplicate": Question(token, token, exclude_self=True),
        "induction": Question(token, before, exclude_self=True),
    }


def _rule_question(rows: PackedRows, rule: LabelRule, model: OpenModel) -> Question:
    query, key = (torch.full(rows.ids.shape, -1, dtype=torch.long) for _ in range(2))
    for number, piece in enumerate(rows.pieces):
        at = (piece.row, slice(piece.start, piece.stop))
        labels = _small(rule.labels(model.processor.tokens_of(rows.ids[at])))
        query[at], key[at] = (torch.where(each < 0, -1, each + number * LARGEST_LABEL) for each in labels)
    return Question(query, key, rule.exclude_self)


def _small(labels: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Labels that fit 32 bits, equal where these are."""
    query, key = labels
    if max(int(side.max()) for side in labels) < 2**31:
        return query, key
    ranks = torch.unique(torch.cat((query, key)), return_inverse=True)[1]
    both = torch.where(torch.cat((query, key)) < 0, -1, ranks)
    return both[: len(query)], both[len(query) :]


def _narrow(labels: Int[Tensor, "row position"]) -> Int[Tensor, "row position"]:
    return torch.where(labels < 0, -1, labels & (LARGEST_LABEL - 1)).to(torch.int32)
