"""From a value for every row to a few sums for every piece: the part of counting that happens where the model runs.

Nothing here waits for a GPU. The sums are small, and travel to the tally while the next rows are being read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.scan.tally.examples import Span

TRAITS = ("entropy", "distance", "spread", "strongest")
ENTROPY_BINS, DISTANCE_BINS = 32, 24


@dataclass(frozen=True)
class Seen:
    """One site's numbers for one batch: a value for every row, quantity and head. Traits come first."""

    values: Float[Tensor, "row position quantity head"]
    valid: Bool[Tensor, "row position quantity"]
    strongest: Int[Tensor, "row position head"]
    """The key that each row looks at most, as a column."""
    spans: Sequence[Span]


@dataclass(frozen=True)
class Reduced:
    """What is left of it: sums by piece, totals, histograms, and the best row of every piece."""

    rows: Int[Tensor, "piece quantity"]
    sums: Float[Tensor, "piece quantity head"]
    squares: Float[Tensor, "quantity head"]
    largest: Float[Tensor, "quantity head"]
    smallest: Float[Tensor, "quantity head"]
    entropy: Int[Tensor, "head entropy_bin"]
    distance: Int[Tensor, "head distance_bin"]
    top_score: Float[Tensor, "question head piece"]
    top_column: Int[Tensor, "question head piece"]
    top_looks_at: Int[Tensor, "question head piece"]

    def to_host(self) -> Reduced:
        """Copies on the CPU. From a GPU they are ready only when the GPU has come so far."""
        return Reduced(**{part.name: getattr(self, part.name).to("cpu", non_blocking=True) for part in fields(self)})


def reduce(seen: Seen, n_questions: int, context: int) -> Reduced:
    """Sum up one site of one batch. Examples are sought for the first so many questions."""
    valid = seen.valid[..., None]
    wide = seen.values.double() * valid
    parts = [(span.row, slice(span.start, span.stop)) for span in seen.spans]
    high, low = (seen.values.masked_fill(~valid, fill) for fill in (-math.inf, math.inf))
    asked = high[:, :, len(TRAITS) : len(TRAITS) + n_questions]
    tops = [asked[part].max(0) for part in parts]
    looks_at = [seen.strongest[part].gather(0, top.indices) for part, top in zip(parts, tops, strict=True)]
    return Reduced(
        rows=torch.stack([seen.valid[part].sum(0) for part in parts]),
        sums=torch.stack([wide[part].sum(0) for part in parts]),
        squares=wide.square().sum((0, 1)),
        largest=high.amax((0, 1)).double(),
        smallest=low.amin((0, 1)).double(),
        entropy=_entropy_histogram(seen, context),
        distance=_distance_histogram(seen),
        top_score=torch.stack([top.values for top in tops], dim=2).float(),
        top_column=torch.stack([top.indices + part[1].start for part, top in zip(parts, tops, strict=True)], dim=2),
        top_looks_at=torch.stack(looks_at, dim=2),
    )


def entropy_edges(context: int) -> list[float]:
    """Equal steps from nothing to all keys alike."""
    return [i * math.log(context) / ENTROPY_BINS for i in range(ENTROPY_BINS + 1)]


def distance_edges() -> list[float]:
    """Powers of two: 0, ½, 1, 2, 4 …"""
    return [0.0, *(2.0 ** (i - 1) for i in range(DISTANCE_BINS))]


def _entropy_histogram(seen: Seen, context: int) -> Int[Tensor, "head bin"]:
    width = math.log(max(context, 2)) / ENTROPY_BINS
    return _histogram((seen.values[:, :, TRAITS.index("entropy")] / width).long(), seen.valid[..., 0], ENTROPY_BINS)


def _distance_histogram(seen: Seen) -> Int[Tensor, "head bin"]:
    far = seen.values[:, :, TRAITS.index("distance")].abs().clamp(min=2.0**-8)
    return _histogram(torch.log2(far).floor().long() + 2, seen.valid[..., 0], DISTANCE_BINS)


def _histogram(
    bins: Int[Tensor, "row position head"], counted: Bool[Tensor, "row position"], n_bins: int
) -> Int[Tensor, "head bin"]:
    n_heads = bins.shape[2]
    place = bins.clamp(0, n_bins - 1) + torch.arange(n_heads, device=bins.device) * n_bins
    # Counted in the order in which a scan's numbers lie in memory.
    ones = counted[:, None].expand(-1, n_heads, -1).long()
    empty = torch.zeros(n_heads * n_bins, dtype=torch.long, device=bins.device)
    return empty.scatter_add_(0, place.transpose(1, 2).flatten(), ones.flatten()).view(n_heads, n_bins)
