"""The places where a head answers a question most: a few for each head, at most one from each piece of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

BEFORE, AFTER = 24, 8
WINDOW = BEFORE + 1 + AFTER
"""Tokens around an example that are kept: some before it, itself, some after."""
NO_TOKEN = -1


class Span(NamedTuple):
    """Columns ``start:stop`` of a row hold tokens of a document, from its token ``offset`` on."""

    row: int
    start: int
    stop: int
    document: int
    offset: int


class Example(NamedTuple):
    """One place: how strongly, at which token of which document, at which token it looks, and the tokens around it."""

    score: float
    document: int
    position: int
    key: int
    tokens: list[int]


@dataclass
class Best:
    """Slots in falling order of score; an empty one has score −1 and document −1."""

    score: Float[Tensor, "question head slot"]
    document: Int[Tensor, "question head slot"]
    position: Int[Tensor, "question head slot"]
    key: Int[Tensor, "question head slot"]
    tokens: Int[Tensor, "question head slot window"]

    @classmethod
    def none(cls, n_questions: int, n_heads: int, slots: int) -> Best:
        shape = (n_questions, n_heads, slots)
        empty = torch.full(shape, -1, dtype=torch.long)
        tokens = torch.full((*shape, WINDOW), NO_TOKEN, dtype=torch.int32)
        return cls(torch.full(shape, -1.0), empty, empty.clone(), empty.clone(), tokens)

    def at(self, question: int, head: int) -> list[Example]:
        """The examples of one head, best first."""
        parts = [part[question, head].tolist() for part in self._parts()]
        return [Example(*one) for one in zip(*parts, strict=True) if one[1] >= 0]

    def merge(self, other: Best) -> Best:
        """The best of both. Equal scores are ordered by place, so that the order of merging does not matter."""
        both = [torch.cat(pair, dim=2) for pair in zip(self._parts(), other._parts(), strict=True)]
        order = _order(*both[:3])[..., : self.score.shape[2]]
        tokens = both[4].gather(2, order[..., None].expand(*order.shape, WINDOW))
        score, document, position, key = (part.gather(2, order) for part in both[:4])
        return Best(score, document, position, key, tokens)

    def only(self, heads: slice) -> Best:
        return Best(*(part[:, heads] for part in self._parts()))

    def set(self, heads: slice, best: Best) -> None:
        for mine, theirs in zip(self._parts(), best._parts(), strict=True):
            mine[:, heads] = theirs

    def arrays(self) -> dict[str, Tensor]:
        return {f"best.{name}": getattr(self, name).contiguous() for name in _PARTS}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Tensor]) -> Best:
        return cls(**{name: arrays[f"best.{name}"] for name in _PARTS})

    def _parts(self) -> list[Tensor]:
        return [getattr(self, name) for name in _PARTS]


_PARTS = ("score", "document", "position", "key", "tokens")


def best_of(
    tops: tuple[Tensor, Tensor, Tensor], ids: Int[Tensor, "row position"], spans: Sequence[Span], slots: int
) -> Best:
    """The best examples of one batch, from the best row of every span: score, column, and column looked at.

    Each is ``[question, head, span]``; a score of −inf says that no row of the span has an answer.
    """
    row, start, stop, document, offset = (part.expand_as(tops[0]) for part in torch.tensor(spans).unbind(1))
    order = _order(tops[0], document, offset)[..., :slots]
    score, column, looks_at = (part.gather(2, order) for part in tops)
    row, start, stop, document, offset = (part.gather(2, order) for part in (row, start, stop, document, offset))
    best = Best(
        score, document, column - start + offset, looks_at - start + offset, _windows(ids, row, column, start, stop)
    )
    _empty(best, score.isneginf())
    return best


def _windows(ids: Tensor, row: Tensor, column: Tensor, start: Tensor, stop: Tensor) -> Int[Tensor, "... window"]:
    around = column[..., None] + torch.arange(-BEFORE, AFTER + 1)
    inside = (around >= start[..., None]) & (around < stop[..., None])
    return torch.where(inside, ids[row[..., None], around.clamp(0, ids.shape[1] - 1)], NO_TOKEN).int()


def _empty(best: Best, where: Tensor) -> None:
    best.score[where] = -1.0
    for part in (best.document, best.position, best.key, best.tokens):
        part[where] = -1


def _order(score: Tensor, document: Tensor, position: Tensor) -> Int[Tensor, "question head slot"]:
    """By falling score, then document, then position: stable sorts, last criterion first."""
    order = position.argsort(dim=2, stable=True)
    order = order.gather(2, document.gather(2, order).argsort(dim=2, stable=True))
    return order.gather(2, score.gather(2, order).argsort(dim=2, descending=True, stable=True))
