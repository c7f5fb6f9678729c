"""Two-head attention worked out in plain numbers, with every step written down as arithmetic.

First the query of one token, its scores and softmax, for each head. Then, with given attention weights: z of each
head, their concatenation, and W_O, as the identity and as a matrix that mixes. Plain Python numbers throughout, so
that the arithmetic shown is the arithmetic done.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from headscope.errors import InputError

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
class _HandHead:
    """One head: its question in words, W_Q and W_K, and given attention weights (``scorecard``)."""

    asks: str
    W_Q: Matrix
    W_K: Matrix
    scorecard: dict[str, Number]


# Both heads read keys in the same way here, so that everything that differs comes from W_Q.
_W_K = _rows(8, 4, {0: [1, 0, 0, 0], 1: [0, 1, 0, 0], 2: [0, 0, 0, 1], 3: [0, 0, 0, 1], 4: [0, 0, 1, 0]})


def _default_heads() -> list[_HandHead]:
    return [
        _HandHead(
            "Who is meant?",
            _rows(8, 4, {5: [5, -1, 0, 1], 6: [0, 0.4, 0.2, 0]}),
            [list(row) for row in _W_K],
            {"animal": 0.70, "road": 0.05, "because": 0.10, "was": 0.05, "tired": 0.10},
        ),
        _HandHead(
            "What is said of it?",
            _rows(8, 4, {5: [3, 0, 5, 2], 6: [0, 1, 0, 0]}),
            [list(row) for row in _W_K],
            {"animal": 0.20, "road": 0.05, "because": 0.05, "was": 0.15, "tired": 0.55},
        ),
    ]


@dataclass(frozen=True)
class WorkedExample:
    """Every editable number of the example; ``reader`` is the query token, the other words are keys."""

    sentence: str = SENTENCE
    reader: str = "it"
    x: dict[str, Vector] = field(default_factory=lambda: {word: list(row) for word, row in _X.items()})
    heads: list[_HandHead] = field(default_factory=_default_heads)
    values: dict[str, Vector] = field(default_factory=lambda: {word: list(row) for word, row in _VALUES.items()})
    W_O: Matrix = field(default_factory=lambda: _sum_and_difference(8))

    def __post_init__(self) -> None:
        _check(self)

    @property
    def words(self) -> list[str]:
        return list(self.values)

    @classmethod
    def from_dict(cls, edited: Mapping[str, Any]) -> WorkedExample:
        """Replace some parts of the default example."""
        known = {part.name for part in fields(cls)}
        unknown = sorted(set(edited) - known)
        if unknown:
            raise InputError(f"the example has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
        parts = dict(edited)
        if "heads" in parts:
            parts["heads"] = [head if isinstance(head, _HandHead) else _head(head) for head in parts["heads"]]
        return cls(**parts)


@dataclass(frozen=True)
class CalculationStep:
    """One step of the example: its title, an explanation, and the arithmetic line by line."""

    title: str
    says: str
    lines: list[str]


@dataclass(frozen=True)
class HeadWork:
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
    heads: list[HeadWork]
    concatenated: Vector
    through_identity: Vector
    mixed: Vector
    steps: list[CalculationStep]


def work(example: WorkedExample | None = None) -> _Worked:
    """Compute every number of the example, and write each step down as arithmetic."""
    example = example or WorkedExample()
    heads = [_head_work(example, head) for head in example.heads]
    concatenated = [number for head in heads for number in head.z]
    plain = _times(concatenated, _identity(len(concatenated)))
    mixed = _times(concatenated, example.W_O)
    steps: list[CalculationStep] = []
    for index, (head, done) in enumerate(zip(example.heads, heads, strict=True), start=1):
        steps += _start_steps(example, index, head, done)
    for index, (head, done) in enumerate(zip(example.heads, heads, strict=True), start=1):
        steps.append(_weigh_step(example, index, head, done))
    steps += _end_steps(example, concatenated, plain, mixed)
    return _Worked(example, heads, concatenated, plain, mixed, steps)


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


def _head_work(example: WorkedExample, head: _HandHead) -> HeadWork:
    query = _times(example.x[example.reader], head.W_Q)
    keys = {word: _times(example.x[word], head.W_K) for word in example.words}
    root = math.sqrt(len(query))
    scores = {word: math.fsum(a * b for a, b in zip(query, key, strict=True)) / root for word, key in keys.items()}
    return HeadWork(query, keys, scores, _softmax(scores), weigh(head.scorecard, example.values))


def _products(left: Sequence[Number], right: Sequence[Number]) -> str:
    """Write a·b + c·d …, without products that are zero."""
    kept = [f"{number(a)}·{number(b)}" for a, b in zip(left, right, strict=True) if a and b]
    return " + ".join(kept) or "0"


def _start_steps(example: WorkedExample, index: int, head: _HandHead, done: HeadWork) -> list[CalculationStep]:
    x, reader = example.x[example.reader], example.reader
    columns = [[row[column] for row in head.W_Q] for column in range(len(done.query))]
    query = [
        f"q{index}[{n + 1}] = {_products(x, column)} = {number(done.query[n])}" for n, column in enumerate(columns)
    ]
    root = number(math.sqrt(len(done.query)))
    scores = [
        f"{word}: ({_products(done.query, done.keys[word])}) / {root} = {number(score)}"
        for word, score in done.scores.items()
    ]
    powers = {word: math.exp(score) for word, score in done.scores.items()}
    total = math.fsum(powers.values())
    softened = [
        f"{word}: {number(powers[word], 2)} / {number(total, 2)} = {number(done.weights[word])}" for word in powers
    ]
    asks = f"Head {index} asks: {head.asks}"
    return [
        CalculationStep(f"Head {index}: the query of “{reader}”", f"{asks} x times W_Q makes the question.", query),
        CalculationStep(
            f"Head {index}: scores",
            f"The query meets every key; √{len(done.query)} = {root} keeps the numbers small.",
            scores,
        ),
        CalculationStep(
            f"Head {index}: softmax",
            "e to the score, divided by the sum of them: shares that add up to 1.",
            softened,
        ),
    ]


def _weigh_step(example: WorkedExample, index: int, head: _HandHead, done: HeadWork) -> CalculationStep:
    card = [head.scorecard[word] for word in example.words]
    lines = []
    for column, total in enumerate(done.z):
        values = [example.values[word][column] for word in example.words]
        lines.append(f"o{index}[{column + 1}] = {_products(card, values)} = {number(total)}")
    says = ", ".join(f"{word} {number(head.scorecard[word])}" for word in example.words)
    return CalculationStep(f"Head {index}: weigh the values", f"With the given scorecard: {says}.", lines)


def _end_steps(example: WorkedExample, concatenated: Vector, plain: Vector, mixed: Vector) -> list[CalculationStep]:
    names = ", ".join(f"o{index}" for index in range(1, len(example.heads) + 1))
    lines = []
    for column, total in enumerate(mixed):
        weights = [row[column] for row in example.W_O]
        lines.append(f"y[{column + 1}] = {_products(concatenated, weights)} = {number(total, 4)}")
    return [
        CalculationStep(
            "Concatenate",
            "End to end, nothing added, nothing chosen.",
            [f"[{names}] = {vector(concatenated)}"],
        ),
        CalculationStep(
            "W_O, the identity",
            "A W_O that does nothing hands on what the heads said, each in its own place.",
            [f"y = {vector(plain)}"],
        ),
        CalculationStep("W_O, mixing", "Now every number of y is made from both heads.", lines),
    ]


def _head(parts: Mapping[str, Any]) -> _HandHead:
    known = [part.name for part in fields(_HandHead)]
    missing = [name for name in known if name not in parts]
    if missing:
        raise InputError(f"a head of the example needs {', '.join(known)}; {missing[0]} is missing")
    return _HandHead(**{name: parts[name] for name in known})


def _check(example: WorkedExample) -> None:
    if not example.values or not example.heads:
        raise InputError("the example needs at least one head and one word with a value, as in animal: .8 .1 0 .2")
    for word in (example.reader, *example.words):
        if word not in example.x:
            raise InputError(f"x has no row for {word!r}; give it {len(FEATURES)} numbers")
    width = len(example.x[example.reader])
    d_value = len(next(iter(example.values.values())))
    for name, table, size in (("x", example.x, width), ("value", example.values, d_value)):
        for word, row in table.items():
            _check_numbers(f"the {name} of {word!r}", row, size)
    for index, head in enumerate(example.heads, start=1):
        _check_matrix(f"W_Q of head {index}", head.W_Q, width, len(head.W_Q[0]) if head.W_Q else 0)
        _check_matrix(f"W_K of head {index}", head.W_K, width, len(head.W_Q[0]))
        check_scorecard(f"head {index}", head.scorecard, example.words)
    total = d_value * len(example.heads)
    _check_matrix("W_O", example.W_O, total, len(example.W_O[0]) if example.W_O else 0)


def check_scorecard(name: str, card: Mapping[str, Number], words: Sequence[str]) -> None:
    """Refuse a scorecard that is not one share per word, none negative, with sum 1."""
    if set(card) != set(words):
        raise InputError(f"the scorecard of {name} has the words {', '.join(card)}; it needs {', '.join(words)}")
    _check_numbers(f"the scorecard of {name}", list(card.values()), len(words))
    lowest = min(card, key=lambda word: card[word])
    if card[lowest] < 0:
        raise InputError(f"{name} gives {lowest} {card[lowest]:g}; shares must be at least 0")
    total = math.fsum(card.values())
    if abs(total - 1) > 0.005:
        raise InputError(
            f"the shares of {name} add up to {total:g}; they must add up to 1, as .70 + .05 + .10 + .05 + .10 do"
        )


def _check_numbers(name: str, row: object, size: int) -> None:
    good = isinstance(row, list | tuple) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in row
    )
    if not good or len(row) != size:  # type: ignore[arg-type]
        raise InputError(f"{name} must be {size} finite numbers, got {row!r}")


def _check_matrix(name: str, matrix: Matrix, n_rows: int, n_columns: int) -> None:
    if len(matrix) != n_rows or not n_columns:
        raise InputError(f"{name} must have {n_rows} rows of numbers, got {len(matrix)}")
    for row in matrix:
        _check_numbers(f"a row of {name}", row, n_columns)
