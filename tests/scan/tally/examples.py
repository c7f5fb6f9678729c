"""The top examples of one head, as a list."""

from __future__ import annotations

from typing import NamedTuple

from headscope.scan.tally import TopExamples


class Example(NamedTuple):
    """One query: its score, where it is, the key it attends to most, and the tokens around it."""

    score: float
    document: int
    position: int
    key: int
    tokens: list[int]


def examples_of(kept: TopExamples, question: int, head: int) -> list[Example]:
    """Return the examples of one head, strongest first."""
    parts = [getattr(kept, name)[question, head].tolist() for name in Example._fields]
    return [Example(*one) for one in zip(*parts, strict=True) if one[1] >= 0]
