"""Selectors: the W_Q and W_K of a head that attends as a rule says.

Scores are bilinear in the residual stream. ``SHARP`` nats separate a target from other keys; where there is no target,
a head rests on the first token, which scores between the two. Distance enters as a score that grows with the key's
position: j / near gives weights exp(−distance / near) exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.lab.compile.residual_layout import N_WORDS, ResidualLayout
from headscope.lab.compile.words import CLASSES, IDS

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
    reads_class: bool = False
    """Whether it reads a class that an MLP may have computed."""


def offset(rule: str, steps: int) -> Selector:
    """Attend so many places back."""

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
    """Attend to the words of a class: to all alike, to near ones more, or to the last only."""
    rule = f"last {name}" if last else name if near is None else f"{name}, near {near:g}"

    def make(layout: ResidualLayout) -> QueryKey:
        slope = LATER if last else 0.0 if near is None else 1 / near
        sharp = SHARP + slope * layout.context
        if layout.mlp:
            wanted = sharp * layout.read(layout.class_mark(name), torch.ones(1, 1))
        else:
            wanted = layout.read(layout.token, sharp * _class(CLASSES[name]))
        return _resting(layout, _ones(layout), wanted + _later(layout, slope), sharp - SHARP / 2)

    return Selector(rule, make, reads_class=True)


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
    """Attend to the last key that stands after one of these words: the start of a sentence or line."""
    ends = tuple(ends)

    def make(layout: ResidualLayout) -> QueryKey:
        sharp = SHARP + LATER * layout.context
        wanted = layout.read(layout.note(0), sharp * _class(ends))
        return _resting(layout, _ones(layout), wanted + _later(layout, LATER), sharp - SHARP / 2, itself=True)

    return Selector(rule, make, needs=(1,))


def from_to(rule: str, queries: Iterable[str], keys: Iterable[str]) -> Selector:
    """From some words to the last of others: a closing bracket to the one that it closes."""
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
