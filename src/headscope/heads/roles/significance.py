"""Significance of head scores: Wilcoxon's signed ranks over inputs, and Holm's correction.

Every head is scored on each input beside a rival on the same input. The test is one-sided and exact, so that no normal
distribution is assumed where 32 inputs meet a family of thousands of tests. Ties and zeros are ranked against the head.
Holm's correction keeps the chance of any false role in a whole model below α.
"""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

EXACT_UP_TO = 200


def signed_ranks(differences: Float[Tensor, "input head"]) -> Float[Tensor, " head"]:
    """Each head's p-value: the chance of a rank sum at least this large if every sign were equally likely."""
    n = len(differences)
    if n == 0:
        return torch.ones(differences.shape[1], dtype=torch.float64)
    values = differences.double()
    against = (values <= 0).double()
    # By size, and among equal sizes those against the head last, where ranks are highest.
    order = against.argsort(dim=0, stable=True)
    order = order.gather(0, values.abs().gather(0, order).argsort(dim=0, stable=True))
    ranks = torch.arange(1, n + 1, dtype=torch.float64)[:, None]
    total = (ranks * (1 - against.gather(0, order))).sum(0)
    return _tail(n)[total.long()] if n <= EXACT_UP_TO else _normal_tail(total, n)


@cache
def _tail(n: int) -> Tensor:
    """P(sum of the positive ranks ≥ s) for every s, when each of 1…n is positive with probability one half."""
    chances = torch.zeros(n * (n + 1) // 2 + 1, dtype=torch.float64)
    chances[0] = 1.0
    for rank in range(1, n + 1):
        shifted = torch.zeros_like(chances)
        shifted[rank:] = chances[:-rank]
        chances = (chances + shifted) / 2
    tail: Tensor = chances.flip(0).cumsum(0).flip(0).clamp(max=1.0)
    return tail


def _normal_tail(total: Tensor, n: int) -> Tensor:
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    tail: Tensor = torch.special.ndtr(-(total - mean - 0.5) / variance**0.5)
    return tail


def holm(p: Float[Tensor, " test"]) -> Float[Tensor, " test"]:
    """P-values corrected for all tests together (Holm 1979)."""
    order = p.argsort(stable=True)
    factors = torch.arange(len(p), 0, -1, dtype=p.dtype)
    stepped = (p[order] * factors).cummax(0).values.clamp(max=1.0) if len(p) else p
    corrected = torch.empty_like(p)
    corrected[order] = stepped
    return corrected


def passes_threshold(
    scores: Float[Tensor, "input head"], rivals: Float[Tensor, "input head"], threshold: float, margin: float
) -> Bool[Tensor, " head"]:
    """Whether the mean score reaches its threshold, and exceeds the mean rival by the margin."""
    score, rival = scores.double().mean(0), rivals.double().mean(0)
    return (score >= threshold) & (score - rival >= margin)
