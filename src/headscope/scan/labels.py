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
from headscope.heads.questions.standard_questions import STANDARD, MatchingKeys, matching_keys, standard_questions
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.packing import PackedRows, RowFormat


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


def label_batch(rows: PackedRows, row_format: RowFormat, rules: Sequence[LabelRule], model: OpenModel) -> Labels:
    """Label a batch piece by piece. Labels of different pieces are never equal."""
    shape = rows.ids.shape
    names = question_names(rules)
    query = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    key = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    counted = torch.zeros(shape, dtype=torch.bool)
    visible = torch.zeros(shape, dtype=torch.long)
    before, after = max(len(row_format.tokens_before), 1), len(row_format.tokens_after)
    exclude_self: dict[str, bool] = {}
    for number, piece in enumerate(rows.pieces):
        at = (piece.row, slice(piece.start, piece.stop))
        for name, question in _piece_questions(rows.ids[at], rules, model).items():
            query[name][at], key[name][at] = (_unique(part[0], number) for part in (question.query, question.key))
            exclude_self[name] = question.exclude_self
        counted[piece.row, piece.start + before : piece.stop - after] = True
        visible[at] = piece.stop - piece.start
    questions = {name: Question(query[name], key[name], exclude_self[name]) for name in names}
    matched = {name: BatchQuestion(question, matching_keys(question)) for name, question in questions.items()}
    return Labels(matched, counted, visible, rows.positions() + 1)


def _piece_questions(ids: Int[Tensor, " token"], rules: Sequence[LabelRule], model: OpenModel) -> dict[str, Question]:
    questions = standard_questions(ids[None])
    if rules:
        tokens = model.processor.tokens_of(ids)
        for rule in rules:
            questions[rule.name] = Question(*rule.labels(tokens), rule.exclude_self)
    return questions


def _unique(labels: Int[Tensor, " token"], piece: int) -> Int[Tensor, " token"]:
    """Shift the labels of a piece into a range of their own."""
    return torch.where(labels < 0, -1, labels + piece * LARGEST_LABEL)
