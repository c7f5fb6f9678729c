"""Class tables: how much more a class of queries attends to a class of keys than distance alone would say.

A table has a number for each pair of at most eight classes (``token_features.CLASSES``); a key's weight in a row is
that number times exp(−distance / near), and rows are normalised. Numbers are fitted by iterative scaling, which
maximises the likelihood of a head's pattern: each is multiplied by its observed mass over its expected mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.heads.questions.token_features import CLASSES, TokenFeatures

NAME = "class table"
N = len(CLASSES)
ITERATIONS, FIRST_ITERATIONS = 12, 3
PRIOR = 0.02
"""Mass added to what is observed and expected: a pair that was hardly seen keeps a factor near 1."""
DISTANCES = (2.0, 6.0, 16.0, 48.0, 1e6)


class Cells(NamedTuple):
    """Rows of texts as class tables read them: classes of queries and keys, distances, and which keys are visible."""

    query_class: Int[Tensor, " row"]
    key_class: Int[Tensor, "row key"]
    distance: Int[Tensor, "row key"]
    visible: Bool[Tensor, "row key"]

    @classmethod
    def of(cls, text: TokenFeatures, rows: Int[Tensor, " row"], visible: Bool[Tensor, "row key"]) -> Cells:
        classes = text.token_class.to(rows.device)
        distance = (rows[:, None] - torch.arange(visible.shape[1], device=rows.device)).abs()
        return cls(classes[rows], classes[: visible.shape[1]].expand(len(rows), -1), distance, visible)

    def pairs(self) -> Int[Tensor, "row key"]:
        return self.query_class[:, None] * N + self.key_class


@dataclass(frozen=True)
class ClassTable:
    """The fitted table of one head."""

    near: float
    factors: tuple[float, ...]
    """One number for each query class and key class, row by row."""

    def rows(self, cells: Cells) -> Float[Tensor, "row key"]:
        """The distribution over keys of every row."""
        return _rows(torch.tensor(self.factors, device=cells.distance.device), cells.pairs(), _base(cells, self.near))

    def strongest(self, count: int = 2) -> list[tuple[str, str, float]]:
        """The pairs (query class, key class, factor) whose factors are highest relative to their query's mean."""
        table = torch.tensor(self.factors).view(N, N)
        relative = table / table.mean(1, keepdim=True)
        relative[:, 0] = 0.0
        relative[0] = 0.0
        best = relative.flatten().topk(count)
        return [
            (CLASSES[at // N], CLASSES[at % N], float(value))
            for at, value in zip(best.indices.tolist(), best.values, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        rows = [list(self.factors[start : start + N]) for start in range(0, N * N, N)]
        return {"near": self.near, "classes": list(CLASSES), "factors": rows}

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> ClassTable:
        return cls(written["near"], tuple(float(x) for row in written["factors"] for x in row))


def fit_table(
    pattern: Float[Tensor, "row key"], cells: Cells, distances: Sequence[float] = DISTANCES
) -> tuple[ClassTable, Float[Tensor, "row key"]]:
    """The table of a head, and its distribution on these rows; the rate of decay is the best after a few steps."""
    pairs = cells.pairs()
    tried = []
    for near in distances:
        base = _base(cells, near)
        factors = _scaled(pattern, pairs, base, torch.ones(N * N, device=pattern.device), FIRST_ITERATIONS)
        common = torch.minimum(pattern, _rows(factors, pairs, base)).sum()
        tried.append((float(common), near, base, factors))
    _, near, base, factors = max(tried, key=lambda entry: entry[0])
    factors = _scaled(pattern, pairs, base, factors, ITERATIONS - FIRST_ITERATIONS)
    return ClassTable(near, tuple(round(x, 6) for x in factors.tolist())), _rows(factors, pairs, base)


def _scaled(
    pattern: Float[Tensor, "row key"], pairs: Int[Tensor, "row key"], base: Tensor, factors: Tensor, iterations: int
) -> Float[Tensor, " pair"]:
    """Iterative scaling: each factor times its observed over its expected mass."""
    flat = pairs.flatten()
    seen = torch.bincount(flat, pattern.flatten(), N * N)
    for _ in range(iterations):
        expected = torch.bincount(flat, _rows(factors, pairs, base).flatten(), N * N)
        factors = factors * (seen + PRIOR) / (expected + PRIOR)
        factors = factors / factors.mean()
    return factors


def _base(cells: Cells, near: float) -> Float[Tensor, "row key"]:
    """Decay with distance; the first key is a class of its own, and its distance does not count."""
    base = torch.exp(cells.distance / -near)
    base[:, 0] = 1.0
    return base * cells.visible


def _rows(factors: Tensor, pairs: Int[Tensor, "row key"], base: Float[Tensor, "row key"]) -> Float[Tensor, "row key"]:
    weights = factors[pairs] * base
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)
