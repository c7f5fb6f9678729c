"""Two-head attention worked out in plain numbers; the page writes every step down as arithmetic.

With given attention weights: z of each head, their concatenation, and W_O, as the identity and as a matrix that mixes.
Plain Python numbers throughout, so that the arithmetic shown is the arithmetic done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Number = int | float
Vector = list[Number]
Matrix = list[Vector]

SENTENCE = "The animal didn't cross the road because it was tired"

_VALUES: dict[str, Vector] = {
    "animal": [0.8, 0.1, 0, 0.2],
    "road": [0.1, 0.7, 0.1, 0],
    "because": [0.2, 0.2, 0.6, 0.1],
    "was": [0.1, 0.1, 0.2, 0.8],
    "tired": [0.3, 0.6, 0.1, 0.2],
}


def _identity(size: int) -> Matrix:
    return [[1.0 if row == column else 0.0 for column in range(size)] for row in range(size)]


def _sum_and_difference(size: int) -> Matrix:
    """A W_O whose first outputs are half the sum of two heads and whose last are half their difference."""
    half = size // 2
    top = [[0.5 if column % half == row else 0.0 for column in range(size)] for row in range(half)]
    low = [
        [(0.5 if column < half else -0.5) if column % half == row else 0.0 for column in range(size)]
        for row in range(half)
    ]
    return top + low


@dataclass(frozen=True)
class ExampleHead:
    """One head: its question in words, and given attention weights (``scorecard``)."""

    asks: str
    scorecard: dict[str, Number]


def _default_heads() -> list[ExampleHead]:
    return [
        ExampleHead("Who is meant?", {"animal": 0.70, "road": 0.05, "because": 0.10, "was": 0.05, "tired": 0.10}),
        ExampleHead("What is said of it?", {"animal": 0.20, "road": 0.05, "because": 0.05, "was": 0.15, "tired": 0.55}),
    ]


@dataclass(frozen=True)
class WorkedExample:
    """Every number of the example; ``reader`` is the query token, the other words are keys."""

    sentence: str = SENTENCE
    reader: str = "it"
    heads: list[ExampleHead] = field(default_factory=_default_heads)
    values: dict[str, Vector] = field(default_factory=lambda: {word: list(row) for word, row in _VALUES.items()})
    W_O: Matrix = field(default_factory=lambda: _sum_and_difference(8))


@dataclass(frozen=True)
class _HeadWork:
    """z of one head, from the given scorecard."""

    z: Vector


@dataclass(frozen=True)
class _Worked:
    """The example, computed."""

    example: WorkedExample
    heads: list[_HeadWork]
    concatenated: Vector
    through_identity: Vector
    mixed: Vector


def work(example: WorkedExample | None = None) -> _Worked:
    """Compute every number of the example."""
    example = example or WorkedExample()
    heads = [_HeadWork(weigh(head.scorecard, example.values)) for head in example.heads]
    concatenated = [number for head in heads for number in head.z]
    plain = _times(concatenated, _identity(len(concatenated)))
    mixed = _times(concatenated, example.W_O)
    return _Worked(example, heads, concatenated, plain, mixed)


def _times(row: Sequence[Number], matrix: Matrix) -> Vector:
    """A row vector times a matrix."""
    return [
        math.fsum(a * line[column] for a, line in zip(row, matrix, strict=True)) for column in range(len(matrix[0]))
    ]


def weigh(weights: Mapping[str, Number], values: Mapping[str, Vector]) -> Vector:
    """z of a head: the sum of weight · value."""
    width = len(next(iter(values.values())))
    return [math.fsum(weights[word] * values[word][column] for word in values) for column in range(width)]


def number(value: Number, digits: int = 3) -> str:
    """Format a number without trailing zeros: .62, −.5, 3, 0."""
    text = f"{abs(value):.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".").removeprefix("0") or "0"
    return f"−{text}" if value < 0 and text != "0" else text


def vector(values: Sequence[Number], digits: int = 3) -> str:
    return f"({' '.join(number(value, digits) for value in values)})"
