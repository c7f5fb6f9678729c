"""Keep the strongest examples of each head and question: the highest scores, at most one per piece of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.scan.corpus.packing import PackedRows

BEFORE, AFTER = 24, 8
WINDOW = BEFORE + 1 + AFTER
"""Tokens kept with an example: some before it, itself, some after."""
NO_TOKEN = -1


class _Example(NamedTuple):
    """One query of one head: its score, where it is, the key it attends to most, and the tokens around it."""

    score: float
    document: int
    position: int
    key: int
    tokens: list[int]


@dataclass
class TopExamples:
    """The strongest examples, in decreasing order of score; an empty slot has score −1 and document −1."""

    score: Float[Tensor, "question head slot"]
    document: Int[Tensor, "question head slot"]
    position: Int[Tensor, "question head slot"]
    key: Int[Tensor, "question head slot"]
    tokens: Int[Tensor, "question head slot window"]

    @classmethod
    def empty(cls, n_questions: int, n_heads: int, slots: int) -> TopExamples:
        shape = (n_questions, n_heads, slots)
        document, position, key = (torch.full(shape, -1, dtype=torch.long) for _ in range(3))
        tokens = torch.full((*shape, WINDOW), NO_TOKEN, dtype=torch.int32)
        return cls(torch.full(shape, -1.0), document, position, key, tokens)

    def of(self, question: int, head: int) -> list[_Example]:
        """The examples of one head, strongest first."""
        parts = [part[question, head].tolist() for part in self._parts()]
        return [_Example(*one) for one in zip(*parts, strict=True) if one[1] >= 0]

    def merge(self, other: TopExamples) -> TopExamples:
        """The strongest of both. Equal scores are ordered by position, so the order of merging does not matter."""
        both = [torch.cat(pair, dim=2) for pair in zip(self._parts(), other._parts(), strict=True)]
        order = _order(*both[:3])[..., : self.score.shape[2]]
        tokens = both[4].gather(2, order[..., None].expand(*order.shape, WINDOW))
        score, document, position, key = (part.gather(2, order) for part in both[:4])
        return TopExamples(score, document, position, key, tokens)

    def merge_heads(self, heads: slice, other: TopExamples) -> None:
        """Merge the examples of some heads into this table."""
        merged = TopExamples(*(part[:, heads] for part in self._parts())).merge(other)
        for mine, theirs in zip(self._parts(), merged._parts(), strict=True):
            mine[:, heads] = theirs

    def arrays(self) -> dict[str, Tensor]:
        return {f"best.{name}": getattr(self, name).contiguous() for name in _PARTS}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Tensor]) -> TopExamples:
        return cls(**{name: arrays[f"best.{name}"] for name in _PARTS})

    def _parts(self) -> list[Tensor]:
        return [getattr(self, name) for name in _PARTS]


_PARTS = ("score", "document", "position", "key", "tokens")


def top_examples(tops: tuple[Tensor, Tensor, Tensor], rows: PackedRows, slots: int) -> TopExamples:
    """The strongest examples of one batch, from the best query of every piece: score, column, and column of its key.

    Each of ``tops`` is ``[question, head, piece]``; a score of −inf means that no query of the piece can answer.
    """
    pieces = torch.tensor(rows.pieces)
    fields = [part.expand_as(tops[0]) for part in pieces.unbind(1)]
    # As ``_order``, with what is the same for every head sorted once.
    by_place = _order(torch.zeros(len(pieces)), *pieces.T[3:])
    order = by_place[tops[0][..., by_place].argsort(dim=2, descending=True, stable=True)[..., :slots]]
    score, column, key = (part.gather(2, order) for part in tops)
    row, start, stop, document, offset = (part.gather(2, order) for part in fields)
    window = column[..., None] + torch.arange(-BEFORE, AFTER + 1)
    inside = (window >= start[..., None]) & (window < stop[..., None])
    tokens = torch.where(inside, rows.ids[row[..., None], window.clamp(0, rows.ids.shape[1] - 1)], NO_TOKEN).int()
    found = TopExamples(score, document, column - start + offset, key - start + offset, tokens)
    unanswered = score.isneginf()
    for part in found._parts():
        part[unanswered] = -1
    return found


def _order(score: Tensor, document: Tensor, position: Tensor) -> Int[Tensor, "*axes slot"]:
    """By decreasing score, then document, then position: stable sorts, last criterion first."""
    order = position.argsort(dim=-1, stable=True)
    order = order.gather(-1, document.gather(-1, order).argsort(dim=-1, stable=True))
    return order.gather(-1, score.gather(-1, order).argsort(dim=-1, descending=True, stable=True))
