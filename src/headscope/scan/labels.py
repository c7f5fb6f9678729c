"""The questions of a batch of packed rows: labels, which rows have an answer at all, and what chance would give.

The null of a question has the same labels, shuffled among the keys that a row may see. Its mean over all shuffles
needs no shuffling: if m of a row's n keys match, each key carries a match with chance m/n, whatever the head does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LARGEST_LABEL, LabelRule
from headscope.heads.questions.standard_questions import STANDARD, MatchingKeys, matching_keys, standard_questions
from headscope.models.protocol import OpenModel
from headscope.scan.corpus.packing import Frame, PackedRows
from headscope.scan.tally.examples import Span


@dataclass(frozen=True)
class Asked:
    """One question put to every piece of a batch."""

    question: Question
    matching: MatchingKeys


@dataclass(frozen=True)
class Labels:
    """Everything asked of a batch. ``counted`` leaves out padding, added tokens, and rows that see only themselves."""

    asked: dict[str, Asked]
    counted: Bool[Tensor, "row position"]
    visible: Int[Tensor, "row position"]
    """How many keys the piece has."""
    visible_before: Int[Tensor, "row position"]

    def answerable(self, name: str, causal: bool) -> Bool[Tensor, "row position"]:
        """Rows that have something to find."""
        return self.counted & (self.asked[name].matching.visible(causal) > 0)

    def chance(self, name: str, causal: bool) -> Float[Tensor, "row position"]:
        """The share of the keys a row sees that match."""
        asked = self.asked[name]
        others = (self.visible_before if causal else self.visible) - int(asked.question.exclude_self)
        return asked.matching.visible(causal) / others.clamp(min=1)


def null_name(name: str) -> str:
    return f"{name} (shuffled)"


def question_names(rules: Sequence[LabelRule]) -> tuple[str, ...]:
    return (*STANDARD, *(rule.name for rule in rules))


def label(rows: PackedRows, frame: Frame, rules: Sequence[LabelRule], model: OpenModel) -> Labels:
    """Label a batch, piece by piece: labels of different pieces are never equal."""
    shape = rows.ids.shape
    names = question_names(rules)
    query = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    key = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    counted = torch.zeros(shape, dtype=torch.bool)
    visible = torch.zeros(shape, dtype=torch.long)
    alone: set[str] = set()
    for number, piece in enumerate(rows.pieces):
        at = (piece.row, slice(piece.start, piece.stop))
        for name, question in _of_piece(rows.ids[at], rules, model).items():
            query[name][at], key[name][at] = (_own(part[0], number) for part in (question.query, question.key))
            if question.exclude_self:
                alone.add(name)
        counted[piece.row, _counted(piece, frame)] = True
        visible[at] = piece.stop - piece.start
    questions = {name: Question(query[name], key[name], name in alone) for name in names}
    asked = {name: Asked(question, matching_keys(question)) for name, question in questions.items()}
    return Labels(asked, counted, visible, rows.places() + 1)


def _of_piece(ids: Int[Tensor, " token"], rules: Sequence[LabelRule], model: OpenModel) -> dict[str, Question]:
    questions = standard_questions(ids[None])
    if rules:
        tokens = model.tokens_of(ids)
        for rule in rules:
            query, key = rule.labels(tokens)
            questions[rule.name] = Question(query, key, rule.exclude_self)
    return questions


def _own(labels: Int[Tensor, " token"], piece: int) -> Int[Tensor, " token"]:
    return torch.where(labels < 0, -1, labels + piece * LARGEST_LABEL)


def _counted(piece: Span, frame: Frame) -> slice:
    return slice(piece.start + max(len(frame.before), 1), piece.stop - len(frame.after))
