"""Bootstrap intervals: multinomial for reports, Poisson for scans.

``bootstrap`` draws as many inputs as there are, with replacement: all inputs of a report are there at once, and its
sample size stays what it is. ``poisson_weights`` draws from hashes how often each document counts: a scan does not know
how many documents will come, and its shards have to draw the same weights on every machine and in every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

RESAMPLES = 1000
EDGE = (1 - 0.95) / 2
MAX_WEIGHT = 16
"""Draws of Poisson(1) are at most this; a larger one has probability 10⁻¹⁵."""

_THRESHOLDS = np.cumsum([math.exp(-1) / math.factorial(n) for n in range(MAX_WEIGHT)])


def percentile_interval(replicates: Float[Tensor, "replicate *shape"]) -> tuple[Tensor, Tensor]:
    """The middle 95 % of bootstrap replicates; those that are NaN (no unit drawn) are left out.

    As ``torch.nanquantile`` to the last bit, which sorts once for each end, and ten times as slowly.
    """
    if not replicates.numel():
        return torch.nanquantile(replicates, EDGE, dim=0), torch.nanquantile(replicates, 1 - EDGE, dim=0)
    ordered = torch.from_numpy(np.sort(replicates.movedim(0, -1).contiguous().numpy(), axis=-1))  # NaN come last
    last = (~ordered.isnan()).sum(-1, keepdim=True) - 1

    def quantile(q: float) -> Tensor:
        rank = (last * torch.tensor(q, dtype=ordered.dtype)).clamp(min=0.0)
        below = rank.floor()
        low, high = (ordered.gather(-1, at.long()) for at in (below, rank.ceil()))
        return low.lerp(high, rank - below).squeeze(-1)

    return quantile(EDGE), quantile(1 - EDGE)


def bootstrap(values: Float[Tensor, "input head"], seed: int) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """The 95 % interval of the mean over inputs, from ``RESAMPLES`` draws with replacement; NaN of one input."""
    if len(values) == 1:
        return torch.full_like(values[0].double(), math.nan), torch.full_like(values[0].double(), math.nan)
    return percentile_interval(resampling_counts(len(values), seed) @ values.double() / len(values))


def resampling_counts(n: int, seed: int) -> Float[Tensor, "replicate input"]:
    """How often each of ``n`` inputs is drawn in each of ``RESAMPLES`` draws with replacement."""
    draws = torch.randint(n, (RESAMPLES, n), generator=torch.Generator().manual_seed(seed))
    return torch.zeros(RESAMPLES, n, dtype=torch.float64).scatter_add_(1, draws, torch.ones_like(draws).double())


def hash64(numbers: NDArray[np.uint64], *keys: int) -> NDArray[np.uint64]:
    """A 64-bit hash of each number under some keys (splitmix64, Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64)
    for key in (0, *keys):
        mixed = mixed ^ np.uint64(key % 2**64)
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


def poisson_weights(units: Sequence[int], replicates: int, seed: int) -> Float[Tensor, "replicate unit"]:
    """How often each unit is drawn in each bootstrap replicate: Poisson(1) from a hash of unit, replicate and seed."""
    by_unit = hash64(np.array(units, dtype=np.uint64), seed)
    each = np.arange(replicates, dtype=np.uint64)[:, None] * np.uint64(0xD1342543DE82EF95)
    uniform = (hash64(by_unit[None, :] ^ each) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return torch.from_numpy(np.searchsorted(_THRESHOLDS, uniform).astype(np.float64))
