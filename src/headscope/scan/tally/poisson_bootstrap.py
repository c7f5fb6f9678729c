"""Draw Poisson bootstrap weights from hashes, so that they are the same on every machine and in every order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

MAX_WEIGHT = 16
"""Draws of Poisson(1) are at most this; a larger one has probability 10⁻¹⁵."""

_THRESHOLDS = np.cumsum([math.exp(-1) / math.factorial(n) for n in range(MAX_WEIGHT)])


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
