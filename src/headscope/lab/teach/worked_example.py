"""Two-head attention worked out in plain numbers; the page writes every step down as arithmetic.

First the query of one token, its scores and softmax, for each head. Then, with given attention weights: z of each
head, their concatenation, and W_O, as the identity and as a matrix that mixes. Plain Python numbers throughout, so
that the arithmetic shown is the arithmetic done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Number = int | float
Vector = list[Number]
Matrix = list[Vector]

SENTENCE = "The animal didn't cross the road because it was tired"
FEATURES = ("living", "place", "link", "verb", "state", "pronoun", "subject", "late")

_X: dict[str, Vector] = {
    "it": [0.2, 0.1, 0, 0, 0.1, 1, 0.5, 0],
    "animal": [1, 0, 0, 0, 0.1, 0, 0.6, 0.2],
    "road": [0.1, 1, 0, 0, 0, 0, 0.3, 0.4],
    "because": [0, 0, 1, 0.1, 0, 0, 0, 0.6],
    "was": [0, 0, 0.1, 1, 0.2, 0, 0, 0.8],
    "tired": [0.2, 0, 0, 0.1, 1, 0, 0, 1],
}
_VALUES: dict[str, Vector] = {
    "animal": [0.8, 0.1, 0, 0.2],
    "road": [0.1, 0.7, 0.1, 0],
    "because": [0.2, 0.2, 0.6, 0.1],
    "was": [0.1, 0.1, 0.2, 0.8],
    "tired": [0.3, 0.6, 0.1, 0.2],
}


def _rows(n_rows: int, n_columns: int, filled: Mapping[int, Vector]) -> Matrix:
    return [list(filled.get(row, [0.0] * n_columns)) for row in range(n_rows)]


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
    """One head: its question in words, W_Q and W_K, and given attention weights (``scorecard``)."""

    asks: str
    W_Q: Matrix
    W_K: Matrix
    scorecard: dict[str, Number]


# Both heads read keys in the same way here, so that everything that differs comes from W_Q.
_W_K = _rows(8, 4, {0: [1, 0, 0, 0], 1: [0, 1, 0, 0], 2: [0, 0, 0, 1], 3: [0, 0, 0, 1], 4: [0, 0, 1, 0]})


def _default_heads() -> list[ExampleHead]:
    return [
        ExampleHead(
            "Who is meant?",
            _rows(8, 4, {5: [5, -1, 0, 1], 6: [0, 0.4, 0.2, 0]}),
            [list(row) for row in _W_K],
            {"animal": 0.70, "road": 0.05, "because": 0.10, "was": 0.05, "tired": 0.10},
        ),
        ExampleHead(
            "What is said of it?",
            _rows(8, 4, {5: [3, 0, 5, 2], 6: [0, 1, 0, 0]}),
            [list(row) for row in _W_K],
            {"animal": 0.20, "road": 0.05, "because": 0.05, "was": 0.15, "tired": 0.55},
        ),
    ]


@dataclass(frozen=True)
class WorkedExample:
    """Every number of the example; ``reader`` is the query token, the other words are keys."""

    sentence: str = SENTENCE
    reader: str = "it"
    features: tuple[str, ...] = FEATURES
    x: dict[str, Vector] = field(default_factory=lambda: {word: list(row) for word, row in _X.items()})
    heads: list[ExampleHead] = field(default_factory=_default_heads)
    values: dict[str, Vector] = field(default_factory=lambda: {word: list(row) for word, row in _VALUES.items()})
    W_O: Matrix = field(default_factory=lambda: _sum_and_difference(8))

    @property
    def words(self) -> list[str]:
        return list(self.values)


@dataclass(frozen=True)
class _HeadWork:
    """The numbers of one head: from x to weights, and z from the given scorecard."""

    query: Vector
    keys: dict[str, Vector]
    scores: dict[str, Number]
    weights: dict[str, Number]
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
    heads = [_head_work(example, head) for head in example.heads]
    concatenated = [number for head in heads for number in head.z]
    plain = _times(concatenated, _identity(len(concatenated)))
    mixed = _times(concatenated, example.W_O)
    return _Worked(example, heads, concatenated, plain, mixed)


def _times(row: Sequence[Number], matrix: Matrix) -> Vector:
    """A row vector times a matrix."""
    return [
        math.fsum(a * line[column] for a, line in zip(row, matrix, strict=True)) for column in range(len(matrix[0]))
    ]


def _softmax(scores: Mapping[str, Number]) -> dict[str, Number]:
    highest = max(scores.values())
    powers = {word: math.exp(score - highest) for word, score in scores.items()}
    total = math.fsum(powers.values())
    return {word: power / total for word, power in powers.items()}


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


def _head_work(example: WorkedExample, head: ExampleHead) -> _HeadWork:
    query = _times(example.x[example.reader], head.W_Q)
    keys = {word: _times(example.x[word], head.W_K) for word in example.words}
    root = math.sqrt(len(query))
    scores = {word: math.fsum(a * b for a, b in zip(query, key, strict=True)) / root for word, key in keys.items()}
    return _HeadWork(query, keys, scores, _softmax(scores), weigh(head.scorecard, example.values))
