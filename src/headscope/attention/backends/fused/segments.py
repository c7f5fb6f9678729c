"""Sum the statistics of many layers over segments of rows, in one launch: nothing of a scan's values is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.attention.backends.fused.flash import interpreted, on_gpu_of
from headscope.attention.backends.fused.layers import LayerStatistics

TRAITS = 4
"""Entropy, mean and standard deviation of the distance, strongest weight: the values after the log-sum-exp."""


@dataclass(frozen=True)
class Segments:
    """Columns ``start:stop`` of rows, and which of their queries count. Quantities are traits, then questions."""

    rows: Int[Tensor, "segment 3"]
    """Row, start and stop of each, in 32 bits."""
    valid: Bool[Tensor, "row quantity query"]
    shares: Float[Tensor, "row question query"]
    """The share of keys that match: a question's null is this share of the mass on keys that may match."""
    exclude_self: Float[Tensor, " question"]
    itself: int
    """The number of the question whose mass is that on the query's own key."""


class Bins(NamedTuple):
    """Histograms: entropies in equal steps, distances by powers of two."""

    width: float
    entropy: int
    distance: int


@dataclass(frozen=True)
class SegmentSums:
    """Sums, squares and extremes of every quantity (nulls last), histograms, and the best query of every question."""

    count: Int[Tensor, "segment quantity"]
    sums: Float[Tensor, "segment all_quantity head"]
    squares: Float[Tensor, "segment all_quantity head"]
    largest: Float[Tensor, "segment all_quantity head"]
    smallest: Float[Tensor, "segment all_quantity head"]
    entropy: Int[Tensor, "segment head entropy_bin"]
    distance: Int[Tensor, "segment head distance_bin"]
    top_score: Float[Tensor, "question head segment"]
    top_column: Int[Tensor, "question head segment"]
    top_key: Int[Tensor, "question head segment"]


def sum_segments(found: LayerStatistics, segments: Segments, bins: Bins) -> SegmentSums:
    """Sum the layers of one batch, whose heads are side by side in the result."""
    from headscope.attention.backends.fused import segment_kernel

    n_rows, _, n_query = segments.valid.shape
    n_questions, values = segments.shares.shape[1], found.values[1:]
    n_layers, n_heads = values.shape[1] // n_rows, values.shape[2]
    n_segments, n_all = len(segments.rows), n_layers * n_heads
    quantities, device = TRAITS + n_questions, values.device
    sums, squares, high, low = torch.empty(
        4, n_segments, quantities + n_questions, n_all, dtype=torch.float64, device=device
    )
    count = torch.empty(n_segments, quantities, dtype=torch.long, device=device)
    entropy, distance = (
        torch.empty(n_segments, n_all, size, dtype=torch.int32, device=device) for size in (bins.entropy, bins.distance)
    )
    score = torch.empty(n_questions, n_all, n_segments, device=device)
    column, key = torch.empty(2, n_questions, n_all, n_segments, dtype=torch.long, device=device)
    wide = 1 << (quantities - 1).bit_length()
    with on_gpu_of(found.values):
        segment_kernel.segments[(n_segments, n_all)](
            values, found.strongest, segments.valid, segments.shares, segments.exclude_self, segments.rows,
            sums, squares, high, low, count, entropy, distance, score, column, key,
            n_rows, n_heads, n_query, n_segments, values.stride(0), TRAITS + segments.itself, bins.width,
            T=TRAITS, N=n_questions, QP=wide, NP=max(2, 1 << (n_questions - 1).bit_length()),
            BLOCK=64 if interpreted() else 2048 // wide, ENTROPY_BINS=bins.entropy, DISTANCE_BINS=bins.distance,
            BINS=1 << max(bins.entropy, bins.distance).bit_length(), num_warps=8,
        )  # fmt: skip
    return SegmentSums(count, sums, squares, high, low, entropy, distance, score, column, key)
