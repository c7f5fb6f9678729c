"""The questions of a batch of packed rows: labels, their shuffled nulls, and which rows have an answer at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.attention.questions import Groups, Question, plan
from headscope.heads.chance import shuffled
from headscope.heads.examples import Span
from headscope.heads.rules import LARGEST_LABEL, LabelRule
from headscope.heads.standard import STANDARD, standard_questions
from headscope.models.opened import OpenModel
from headscope.scan.packing import Frame, PackedRows


@dataclass(frozen=True)
class Asked:
    """One question put to every piece of a batch. The null has the same labels, shuffled among the piece's keys."""

    question: Question
    null: Question
    before: Bool[Tensor, "row position"]
    """Rows with a matching key at or before them: what a head that only looks back can answer."""
    anywhere: Bool[Tensor, "row position"]


@dataclass(frozen=True)
class Labels:
    """Everything asked of a batch. ``counted`` leaves out padding, added tokens, and rows that see only themselves."""

    asked: dict[str, Asked]
    counted: Bool[Tensor, "row position"]

    def to(self, device: torch.device) -> dict[str, Question]:
        """Questions and nulls by name, on the device where attention happens."""
        named = {name: asked.question for name, asked in self.asked.items()}
        named |= {null_name(name): asked.null for name, asked in self.asked.items()}
        return {
            name: Question(question.query.to(device), question.key.to(device), question.exclude_self)
            for name, question in named.items()
        }

    def answerable(self, name: str, causal: bool) -> Bool[Tensor, "row position"]:
        asked = self.asked[name]
        return self.counted & (asked.before if causal else asked.anywhere)


def null_name(name: str) -> str:
    return f"{name} (shuffled)"


def question_names(rules: Sequence[LabelRule]) -> tuple[str, ...]:
    return (*STANDARD, *(rule.name for rule in rules))


def label(rows: PackedRows, frame: Frame, rules: Sequence[LabelRule], model: OpenModel, seed: int) -> Labels:
    """Label a batch, piece by piece: labels of different pieces are never equal."""
    shape = rows.ids.shape
    names = question_names(rules)
    query = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    key = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    null = {name: torch.full(shape, -1, dtype=torch.long) for name in names}
    counted = torch.zeros(shape, dtype=torch.bool)
    alone: set[str] = set()
    for number, piece in enumerate(rows.pieces):
        at = (piece.row, slice(piece.start, piece.stop))
        order = shuffled(piece.stop - piece.start, seed, piece.document, piece.offset)
        for name, question in _of_piece(rows.ids[at], rules, model).items():
            query[name][at], key[name][at] = (_own(part[0], number) for part in (question.query, question.key))
            null[name][at] = key[name][at][order]
            if question.exclude_self:
                alone.add(name)
        counted[piece.row, _counted(piece, frame)] = True
    asked = {name: _asked(query[name], key[name], null[name], name in alone) for name in names}
    return Labels(asked, counted)


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


def _asked(query: Tensor, key: Tensor, null: Tensor, exclude_self: bool) -> Asked:
    question = Question(query, key, exclude_self)
    groups = plan(question, path="groups")
    assert isinstance(groups, Groups)
    place = torch.arange(query.shape[1])
    earliest = groups.order.gather(1, groups.start.clamp(max=query.shape[1] - 1))
    found = groups.stop > groups.start
    itself = ((query == key) & (query >= 0)).long() if exclude_self else torch.zeros_like(query)
    before = found & ((earliest < place) if exclude_self else (earliest <= place))
    return Asked(question, Question(query, null, exclude_self), before, groups.stop - groups.start - itself > 0)
