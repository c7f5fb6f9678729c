"""The result of ``observe``: attention output, and exact statistics of every head and query row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention import pattern
from headscope.attention.scores import Scores
from headscope.checked import summary
from headscope.errors import HeadscopeError

Statistic = Literal["entropy", "distance", "strongest"]
ALL_STATISTICS: frozenset[Statistic] = frozenset(("entropy", "distance", "strongest"))

PerRow = Float[Tensor, "batch head query"]
T = TypeVar("T")


class Distance(NamedTuple):
    """Mean and standard deviation of (query position − key position), weighted by attention; a sink does not count."""

    mean: PerRow
    std: PerRow

    def __repr__(self) -> str:
        return summary(self)


class Strongest(NamedTuple):
    """The key with the largest weight, and that weight. A fully masked row has key −1 and weight 0."""

    key: Int[Tensor, "batch head query"]
    weight: PerRow

    def __repr__(self) -> str:
        return summary(self)


@dataclass(frozen=True)
class Rows:
    """What a backend computes, one number per row and statistic; ``None`` for statistics that were not requested."""

    output: Float[Tensor, "batch head query d_value"]
    logsumexp: PerRow
    entropy: PerRow | None
    distance: Distance | None
    strongest: Strongest | None
    mass: dict[str, PerRow]

    __repr__ = summary


@dataclass(frozen=True, repr=False)
class Observation:
    """An observed attention call. Statistics are float32 (float64 for float64 inputs) and carry no gradient."""

    rows: Rows
    backend: str
    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch kv key d_head"]
    scores: Scores

    @property
    def output(self) -> Float[Tensor, "batch head query d_value"]:
        """z: each head's weighted sum of values. Gradients flow through it."""
        return self.rows.output

    @property
    def logsumexp(self) -> PerRow:
        """The logarithm of the softmax denominator, a learned sink included."""
        return self.rows.logsumexp

    @property
    def entropy(self) -> PerRow:
        """In nats. A learned sink counts as one more outcome."""
        return _requested(self.rows.entropy, "entropy")

    @property
    def distance(self) -> Distance:
        """How far back each row attends, in tokens."""
        return _requested(self.rows.distance, "distance")

    @property
    def strongest(self) -> Strongest:
        """The key with the largest weight in each row."""
        return _requested(self.rows.strongest, "strongest")

    @property
    def mass(self) -> Mapping[str, PerRow]:
        """For each question, how much of every row's attention is on keys whose label equals the query's."""
        return self.rows.mass

    @property
    def sink(self) -> PerRow:
        """The attention that goes to a learned sink; zero without one."""
        if self.scores.sinks is None:
            return torch.zeros_like(self.logsumexp)
        return self.scores.sink_weight(self.logsumexp)

    def weights(
        self, rows: pattern.Index = slice(None), columns: pattern.Index = slice(None), head: int | None = None
    ) -> Float[Tensor, "batch head query key"]:
        """Compute the exact attention weights of these rows and columns, for one head or all."""
        return pattern.weights(self._source(head), rows, columns)

    def pooled(
        self, head: int, shape: tuple[int, int], rows: slice = slice(None), columns: slice = slice(None)
    ) -> pattern.Pooled:
        """Reduce a rectangle of one head's pattern to ``shape`` cells, mean and maximum, without storing it whole."""
        return pattern.pooled(self._source(head), shape, rows, columns)

    def _source(self, head: int | None) -> pattern.PatternSource:
        return pattern.PatternSource(self.q, self.k, self.logsumexp, self.scores).only(head)

    def __repr__(self) -> str:
        batch, heads, query = self.logsumexp.shape
        questions = ", ".join(self.mass) or "none"
        return f"Observation({batch}×{heads} heads, {query} queries, backend={self.backend!r}, questions: {questions})"


def _requested(value: T | None, name: str) -> T:
    if value is None:
        raise HeadscopeError(f"{name} was not requested; call observe(…, statistics={{{name!r}, …}})")
    return value
