"""Label a batch of packed rows with questions: which queries can answer each one, and what shuffled labels would give.

The null of a question has the same labels, shuffled among the keys that a query may attend to. Its mean over all
shuffles needs no shuffling: if m of n keys match, each key matches with probability m/n, whatever the head does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.questions import Question
from headscope.heads.questions.label_rules import LARGEST_LABEL, LabelRule
from headscope.heads.questions.standard_questions import STANDARD, MatchingKeys, VisibleKeys, match
from headscope.models.recording import OpenModel
from headscope.scan.corpus.packing import PackedRows, RowFormat, without_waiting
from headscope.scan.tally import TRAITS


@dataclass(frozen=True)
class _Labels:
    """All questions of a batch, one after the other: a GPU labels them in as many launches as one of them takes.

    ``counted`` leaves out padding, added tokens, and queries that see only themselves.
    """

    names: tuple[str, ...]
    query: Int[Tensor, "question row position"]
    key: Int[Tensor, "question row position"]
    excludes: tuple[bool, ...]
    """Whether each question leaves out the query's own key."""
    exclude_self: Int[Tensor, "question 1 1"]
    """The same as 0 or 1, on the device of the labels."""
    matching: MatchingKeys
    counted: Bool[Tensor, "row position"]
    visible: Int[Tensor, "row position"]
    """The number of keys in the piece."""
    visible_before: Int[Tensor, "row position"]
    """The number of them up to the query."""

    @property
    def questions(self) -> dict[str, Question]:
        return self._named(self.query, self.key)

    def within_pieces(self) -> dict[str, Question]:
        """Return the questions with 32-bit labels. Two pieces may share a label: keys are to be within one piece."""
        labels = torch.stack((self.query, self.key))
        return self._named(*torch.where(labels < 0, -1, labels & (LARGEST_LABEL - 1)).to(torch.int32).unbind())

    def answerable(self, keys: VisibleKeys) -> Bool[Tensor, "question row position"]:
        """The queries that have a matching key among those they may attend to."""
        return self.counted & (self.matching.visible(keys) > 0)

    def match_share(self, keys: VisibleKeys) -> Float[Tensor, "question row position"]:
        """The share of the keys a query may attend to that match."""
        before, after = self.visible_before, self.visible - self.visible_before
        if keys.window is not None:
            before, after = before.clamp(max=keys.window), after.clamp(max=keys.window - 1)
        others = (before if keys.causal else before + after) - self.exclude_self
        return self.matching.visible(keys) / others.clamp(min=1)

    def _named(self, query: Tensor, key: Tensor) -> dict[str, Question]:
        sides = zip(self.names, query.unbind(), key.unbind(), self.excludes, strict=True)
        return {name: Question(own_query, own_key, excludes) for name, own_query, own_key, excludes in sides}


class Asked:
    """The questions at the sites of a batch. Sites whose queries see the same keys share masks and counts."""

    def __init__(self, labels: _Labels, context: int) -> None:
        self.labels, self.context = labels, context
        self.questions = labels.within_pieces()
        self._valid: dict[tuple[VisibleKeys, torch.device], Tensor] = {}
        self._shares: dict[tuple[VisibleKeys, torch.device], Tensor] = {}

    def valid(self, keys: VisibleKeys, device: torch.device) -> Bool[Tensor, "row position quantity"]:
        """The queries that count for each quantity: for a question and its null those that can answer it."""
        if (keys, device) not in self._valid:
            answerable = self.labels.answerable(keys).unbind()
            counted = [*[self.labels.counted] * len(TRAITS), *answerable, *answerable]
            self._valid[keys, device] = torch.stack(counted, dim=-1).to(device)
        return self._valid[keys, device]

    def shares(self, keys: VisibleKeys, device: torch.device) -> Float[Tensor, "row question position"]:
        """What shuffled labels would give: the share of the keys that match."""
        if (keys, device) not in self._shares:
            self._shares[keys, device] = self.labels.match_share(keys).transpose(0, 1).to(device)
        return self._shares[keys, device]

    def exclude_self(self, device: torch.device) -> Float[Tensor, "question 1 1"]:
        """1 for the questions that leave out the query's own key."""
        return self.labels.exclude_self.float().to(device)


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
) -> _Labels:
    """Label a batch, all pieces at once. Labels of different pieces are never equal. Nothing waits for a GPU."""
    place = torch.device(device)
    placed = rows.on(place)
    query, key = _standard_labels(*placed)
    if rules:
        own = torch.stack([_rule_labels(rows, rule, model) for rule in rules], dim=1)
        query, key = (torch.cat(sides) for sides in zip((query, key), without_waiting(own, place), strict=True))
    excludes = (*EXCLUDES, *(rule.exclude_self for rule in rules))
    exclude_self = without_waiting(torch.tensor(excludes, dtype=torch.long)[:, None, None], place)
    before, after = max(len(row_format.tokens_before), 1), len(row_format.tokens_after)
    # The last entry is that of padding, whose piece is −1.
    lengths = torch.tensor([*(piece.stop - piece.start for piece in rows.pieces), 0])
    visible = without_waiting(lengths, place)[placed.piece_ids]
    counted = (placed.positions >= before) & (placed.positions < visible - after)
    matching = match(query, key, exclude_self, largest=(len(rows.pieces) + 1) * LARGEST_LABEL)
    return _Labels(
        question_names(rules), query, key, excludes, exclude_self, matching, counted, visible, placed.positions + 1
    )


EXCLUDES = (False, False, False, True, True)
"""Which of the standard questions leave out the query's own key."""


def _standard_labels(
    ids: Int[Tensor, "row position"], positions: Int[Tensor, "row position"], pieces: Int[Tensor, "row position"]
) -> tuple[Int[Tensor, "question row position"], Int[Tensor, "question row position"]]:
    """The five of ``standard_questions`` inside every piece, with labels in a range of the piece's own."""
    inside, base = pieces >= 0, pieces * LARGEST_LABEL
    place, token, first = (label.where(inside, -1) for label in (base + positions, base + ids, base))
    nothing_before = (positions == 0) | ~inside
    previous, before = (label.masked_fill(nothing_before, -1) for label in (place - 1, token.roll(1, dims=1)))
    return torch.stack((previous, place, first, token, token)), torch.stack((place, place, place, token, before))


def _rule_labels(rows: PackedRows, rule: LabelRule, model: OpenModel) -> Int[Tensor, "side row position"]:
    """The labels of queries and of keys."""
    query, key = (torch.full(rows.ids.shape, -1, dtype=torch.long) for _ in range(2))
    for number, piece in enumerate(rows.pieces):
        at = (piece.row, slice(piece.start, piece.stop))
        labels = _small(rule.labels(model.processor.tokens_of(rows.ids[at])))
        query[at], key[at] = (torch.where(each < 0, -1, each + number * LARGEST_LABEL) for each in labels)
    return torch.stack((query, key))


def _small(labels: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Labels that fit 32 bits, equal where these are."""
    query, key = labels
    if max(int(side.max()) for side in labels) < 2**31:
        return query, key
    ranks = torch.unique(torch.cat((query, key)), return_inverse=True)[1]
    both = torch.where(torch.cat((query, key)) < 0, -1, ranks)
    return both[: len(query)], both[len(query) :]
