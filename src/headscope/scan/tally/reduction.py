"""Reduce a site's values for a batch to sums per piece, histograms and best queries, on the device of the model.

Nothing here synchronises with a GPU. The sums are small and are copied to the host while the next batch runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.scan.corpus.packing import Piece

TRAITS = ("entropy", "distance", "spread", "strongest")
ENTROPY_BINS, DISTANCE_BINS = 32, 24


@dataclass(frozen=True)
class SiteValues:
    """One site's values for one batch, per query, quantity and head. The first quantities are the traits."""

    values: Float[Tensor, "row position quantity head"]
    valid: Bool[Tensor, "row position quantity"]
    strongest: Int[Tensor, "row position head"]
    """The column of the key that each query attends to most."""
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class SiteSums:
    """What a tally needs of a site's values: sums per piece, totals, histograms, and the best query of every piece."""

    count: Int[Tensor, "piece quantity"]
    sums: Float[Tensor, "piece quantity head"]
    squares: Float[Tensor, "quantity head"]
    largest: Float[Tensor, "quantity head"]
    smallest: Float[Tensor, "quantity head"]
    entropy: Int[Tensor, "head entropy_bin"]
    distance: Int[Tensor, "head distance_bin"]
    top_score: Float[Tensor, "question head piece"]
    top_column: Int[Tensor, "question head piece"]
    top_key: Int[Tensor, "question head piece"]

    def to_host(self) -> SiteSums:
        """Copy to the CPU without waiting: from a GPU the copies are valid after its stream has reached them."""
        return SiteSums(**{part.name: getattr(self, part.name).to("cpu", non_blocking=True) for part in fields(self)})


def reduce(site: SiteValues, n_questions: int, context: int) -> SiteSums:
    """Sum one site of one batch. The first ``n_questions`` quantities after the traits also give best queries."""
    valid = site.valid[..., None]
    wide = site.values.double() * valid
    parts = [(piece.row, slice(piece.start, piece.stop)) for piece in site.pieces]
    high, low = (site.values.masked_fill(~valid, fill) for fill in (-math.inf, math.inf))
    masses = high[:, :, len(TRAITS) : len(TRAITS) + n_questions]
    tops = [masses[part].max(0) for part in parts]
    keys = [site.strongest[part].gather(0, top.indices) for part, top in zip(parts, tops, strict=True)]
    return SiteSums(
        count=torch.stack([site.valid[part].sum(0) for part in parts]),
        sums=torch.stack([wide[part].sum(0) for part in parts]),
        squares=wide.square().sum((0, 1)),
        largest=high.amax((0, 1)).double(),
        smallest=low.amin((0, 1)).double(),
        entropy=_entropy_histogram(site, context),
        distance=_distance_histogram(site),
        top_score=torch.stack([top.values for top in tops], dim=2).float(),
        top_column=torch.stack([top.indices + part[1].start for part, top in zip(parts, tops, strict=True)], dim=2),
        top_key=torch.stack(keys, dim=2),
    )


def entropy_edges(context: int) -> list[float]:
    """Bin edges in equal steps from 0 to log(context), the entropy of uniform attention."""
    return [i * math.log(context) / ENTROPY_BINS for i in range(ENTROPY_BINS + 1)]


def distance_edges() -> list[float]:
    """Bin edges at powers of two: 0, ½, 1, 2, 4 …"""
    return [0.0, *(2.0 ** (i - 1) for i in range(DISTANCE_BINS))]


def entropy_width(context: int) -> float:
    """The width of a bin of entropies."""
    return math.log(max(context, 2)) / ENTROPY_BINS


def _entropy_histogram(site: SiteValues, context: int) -> Int[Tensor, "head bin"]:
    bins = (site.values[:, :, TRAITS.index("entropy")] / entropy_width(context)).long()
    return _histogram(bins, site.valid[..., 0], ENTROPY_BINS)


def _distance_histogram(site: SiteValues) -> Int[Tensor, "head bin"]:
    far = site.values[:, :, TRAITS.index("distance")].abs().clamp(min=2.0**-8)
    return _histogram(torch.log2(far).floor().long() + 2, site.valid[..., 0], DISTANCE_BINS)


def _histogram(
    bins: Int[Tensor, "row position head"], counted: Bool[Tensor, "row position"], n_bins: int
) -> Int[Tensor, "head bin"]:
    n_heads = bins.shape[2]
    index = bins.clamp(0, n_bins - 1) + torch.arange(n_heads, device=bins.device) * n_bins
    # Transposed, because positions are contiguous in the memory of a scan's values.
    ones = counted[:, None].expand(-1, n_heads, -1).long()
    empty = torch.zeros(n_heads * n_bins, dtype=torch.long, device=bins.device)
    return empty.scatter_add_(0, index.transpose(1, 2).flatten(), ones.flatten()).view(n_heads, n_bins)
