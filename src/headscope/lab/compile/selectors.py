"""Selectors: the W_Q and W_K of a head that attends as a rule says.

Scores are bilinear in the residual stream. ``SHARP`` nats separate a target from other keys; where there is no target,
a head rests on the first token, which scores between the two. Distance enters as a score that grows with the key's
position: j / near gives weights exp(−distance / near) exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.compile.words import CLASSES, IDS, VOCABULARY

SHARP = 24.0
LATER = 4.0
"""Nats per position by which a head that wants the last target prefers the later one."""


@dataclass(frozen=True)
class QueryKey:
    """W_Q and W_K, ``[d_model, d_head]`` each; their product is the score in nats."""

    query: Tensor
    key: Tensor


@dataclass(frozen=True)
class Selector:
    """One rule as a head can follow it. ``needs`` names the first-layer heads whose notes it reads."""

    rule: str
    make: Callable[[ResidualLayout], QueryKey]
    needs: tuple[int, ...] = ()


def offset(rule: str, steps: int) -> Selector:
    """Attend a fixed number of positions back."""

    def make(layout: ResidualLayout) -> QueryKey:
        wanted = (torch.arange(layout.context) - steps).clamp(min=0)
        return QueryKey(
            SHARP * layout.read(layout.position, torch.eye(layout.context)[wanted]), layout.read(layout.position)
        )

    return Selector(rule, make)


def first_token() -> Selector:
    def make(layout: ResidualLayout) -> QueryKey:
        return QueryKey(SHARP * _ones(layout), layout.read(layout.position, _first(layout)))

    return Selector("first token", make)


def decay(near: float) -> Selector:
    """Attend to all tokens, less with distance."""

    def make(layout: ResidualLayout) -> QueryKey:
        never_first = layout.read(layout.position, -SHARP * _first(layout))
        return QueryKey(_ones(layout), _later(layout, 1 / near) + never_first)

    return Selector(f"decay {near:g}", make)


def class_of(name: str, *, near: float | None = None, last: bool = False) -> Selector:
    """Attend to the words of a class: to all equally, to near ones more, or to the last only."""
    rule = f"last {name}" if last else name if near is None else f"{name}, near {near:g}"

    def make(layout: ResidualLayout) -> QueryKey:
        slope = LATER if last else 0.0 if near is None else 1 / near
        sharp = SHARP + slope * layout.context
        wanted = layout.read(layout.token, sharp * _class(CLASSES[name]))
        return _resting(layout, _ones(layout), wanted + _later(layout, slope), sharp - SHARP / 2)

    return Selector(rule, make)


def same_token(rule: str, note: int | None = None, *, last: bool = False) -> Selector:
    """Attend to keys that are the query's token, or that carry it in a note; never to the query itself."""

    def make(layout: ResidualLayout) -> QueryKey:
        slope = LATER if last else 0.0
        sharp = SHARP + slope * layout.context
        part = layout.token if note is None else layout.note(note)
        not_first = torch.eye(N_WORDS)
        not_first[IDS["<s>"]] = 0
        query = sharp * layout.read(layout.token, not_first) + layout.read(layout.one, torch.ones(1, 1), at=N_WORDS)
        key = layout.read(part) + _later(layout, slope, at=N_WORDS)
        return _resting(layout, query, key, sharp - SHARP / 2, at=N_WORDS)

    return Selector(rule, make, needs=() if note is None else (note + 1,))


def same_two(rule: str = "after a copy of two") -> Selector:
    """Attend to what followed the query's token and the one before it: both have to be equal."""

    def make(layout: ResidualLayout) -> QueryKey:
        query = SHARP * (layout.read(layout.token) + layout.read(layout.note(0), at=N_WORDS))
        key = layout.read(layout.note(0)) + layout.read(layout.note(1), at=N_WORDS)
        return _resting(layout, query, key, 1.5 * SHARP, at=2 * N_WORDS)

    return Selector(rule, make, needs=(1, 2))


def start_after(rule: str, ends: Iterable[str]) -> Selector:
    """Attend to the last key that comes after one of these words: the start of a sentence or line."""
    ends = tuple(ends)

    def make(layout: ResidualLayout) -> QueryKey:
        sharp = SHARP + LATER * layout.context
        wanted = layout.read(layout.note(0), sharp * _class(ends))
        return _resting(layout, _ones(layout), wanted + _later(layout, LATER), sharp - SHARP / 2, itself=True)

    return Selector(rule, make, needs=(1,))


def from_to(rule: str, queries: Iterable[str], keys: Iterable[str]) -> Selector:
    """Attend from some words to the last of others, such as from a closing bracket to the one that it closes."""
    queries, keys = tuple(queries), tuple(keys)

    def make(layout: ResidualLayout) -> QueryKey:
        sharp = SHARP + LATER * layout.context
        query = layout.read(layout.token, _class(queries)) + layout.read(layout.one, torch.ones(1, 1), at=1)
        key = layout.read(layout.token, sharp * _class(keys)) + _later(layout, LATER)
        key = key + layout.read(layout.position, (sharp - SHARP / 2) * _first(layout), at=1)
        return QueryKey(query, key)

    return Selector(rule, make)


def _resting(
    layout: ResidualLayout, query: Tensor, key: Tensor, rest: float, *, at: int = 0, itself: bool = False
) -> QueryKey:
    """Let the first token score ``rest``, below every target and above all else, and hide the query's own position."""
    query = torch.maximum(query, layout.read(layout.one, torch.ones(1, 1), at=at))
    key = key + layout.read(layout.position, rest * _first(layout), at=at)
    if not itself:
        free = layout.d_head - layout.context
        query = query - 4 * (rest + SHARP) * layout.read(layout.position, at=free)
        key = key + layout.read(layout.position, at=free)
    return QueryKey(query, key)


def _ones(layout: ResidualLayout) -> Tensor:
    return layout.read(layout.one, torch.ones(1, 1))


def _first(layout: ResidualLayout) -> Tensor:
    column = torch.zeros(layout.context, 1)
    column[0] = 1.0
    return column


def _later(layout: ResidualLayout, slope: float, at: int = 0) -> Tensor:
    """A key that grows with its position."""
    return layout.read(layout.position, slope * torch.arange(layout.context)[:, None].float(), at=at)


def _class(words: Iterable[str]) -> Tensor:
    column = torch.zeros(N_WORDS, 1)
    for word in words:
        if word not in IDS:
            raise InputError(f"{word!r} is not a word of compiled models; see headscope.lab.compile.words.VOCABULARY")
        column[IDS[word]] = 1.0
    return column


N_WORDS = len(VOCABULARY)
N_NOTES = 2


@dataclass(frozen=True)
class ResidualLayout:
    """Slices of the residual stream.

    One-hot token and position, a constant 1, notes of the first layer, the answer.
    """

    context: int = 128

    @property
    def token(self) -> slice:
        return slice(0, N_WORDS)

    @property
    def position(self) -> slice:
        return slice(N_WORDS, N_WORDS + self.context)

    @property
    def one(self) -> slice:
        return slice(self.position.stop, self.position.stop + 1)

    def note(self, number: int) -> slice:
        """What heads of the first layer write for later ones to read: a token."""
        start = self.one.stop + number * N_WORDS
        return slice(start, start + N_WORDS)

    @property
    def answer(self) -> slice:
        start = self.note(N_NOTES).start
        return slice(start, start + N_WORDS)

    @property
    def d_model(self) -> int:
        return int(self.answer.stop)

    @property
    def d_head(self) -> int:
        """Room for a token, a second token, a position and a few numbers."""
        return 2 * N_WORDS + self.context + 4

    def read(self, part: slice, columns: Float[Tensor, "feature column"] | None = None, at: int = 0) -> Tensor:
        """A matrix ``[d_model, d_head]`` that reads a part of the stream, or columns of it, into those from ``at``."""
        columns = torch.eye(part.stop - part.start) if columns is None else columns
        matrix = torch.zeros(self.d_model, self.d_head)
        matrix[part, at : at + columns.shape[1]] = columns
        return matrix

    def write(self, part: slice) -> Tensor:
        """A matrix ``[d_head, d_model]`` that writes the token in z's first dimensions into a part of the stream."""
        matrix = torch.zeros(self.d_head, self.d_model)
        matrix[:N_WORDS, part] = torch.eye(N_WORDS)
        return matrix
