"""Multi-head attention, the definition. Plain, slow, and meant to be read first.

One head asks one question of every token: a query meets all keys, the scores become shares that add up to one, and
the shares weigh the values. Several heads are several such questions asked side by side; their answers are laid end
to end and mixed by one matrix, W_O. Nothing here is optimised, ever: every other file is tested against this one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class HeadWeights(NamedTuple):
    """The three matrices of one head."""

    W_Q: Float[Tensor, "d_model d_head"]
    W_K: Float[Tensor, "d_context d_head"]
    W_V: Float[Tensor, "d_context d_value"]


class Attended(NamedTuple):
    """What one head did: how it shared its attention out, and what it carried home."""

    weights: Float[Tensor, "query key"]
    z: Float[Tensor, "query d_value"]


def softmax(scores: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """Shares of each row. A row that may look nowhere shares nothing: all zeros."""
    highest = scores.max(dim=-1, keepdim=True).values
    powers = torch.exp(scores - highest.where(highest.isfinite(), torch.zeros_like(highest)))
    total = powers.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, powers / total, torch.zeros_like(powers))


def attend(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    v: Float[Tensor, "key d_value"],
    allowed: Bool[Tensor, "query key"],
    scale: float,
) -> Attended:
    """One head, from its queries, keys and values: every query meets every key, then the shares weigh the values."""
    return weigh((q @ k.T) * scale, v, allowed)


def weigh(
    scores: Float[Tensor, "query key"], v: Float[Tensor, "key d_value"], allowed: Bool[Tensor, "query key"]
) -> Attended:
    """Mask, softmax, weigh: what follows once every query has its score for every key."""
    weights = softmax(scores.masked_fill(~allowed, float("-inf")))
    return Attended(weights, weights @ v)


def one_head(
    x: Float[Tensor, "query d_model"],
    context: Float[Tensor, "key d_context"],
    head: HeadWeights,
    allowed: Bool[Tensor, "query key"],
) -> Attended:
    """One head, from the tokens: project, then attend. In self-attention the context is x itself."""
    q, k, v = x @ head.W_Q, context @ head.W_K, context @ head.W_V
    return attend(q, k, v, allowed, scale=q.shape[-1] ** -0.5)


def multi_head(
    x: Float[Tensor, "query d_model"],
    context: Float[Tensor, "key d_context"],
    heads: list[HeadWeights],
    W_O: Float[Tensor, "concatenated d_model"],
    allowed: Bool[Tensor, "query key"],
) -> Float[Tensor, "query d_model"]:
    """Several heads: a plain loop over single ones, their answers concatenated, and mixed by W_O."""
    answers = [one_head(x, context, head, allowed).z for head in heads]
    return torch.cat(answers, dim=-1) @ W_O


class RowStatistics(NamedTuple):
    """What is said of one head's row of weights; each is a weighted sum, or a maximum, over the keys."""

    entropy: Float[Tensor, " query"]
    distance_mean: Float[Tensor, " query"]
    distance_std: Float[Tensor, " query"]
    strongest_key: Int[Tensor, " query"]
    strongest_weight: Float[Tensor, " query"]


def row_statistics(weights: Float[Tensor, "query key"]) -> RowStatistics:
    """The statistics, straight from the pattern. Entropy in nats; distance counts keys back from the query's place."""
    n_query, n_key = weights.shape
    logs = torch.where(weights > 0, weights.log(), torch.zeros_like(weights))
    distance = (torch.arange(n_query)[:, None] + n_key - n_query - torch.arange(n_key)).to(weights.dtype)
    total = weights.sum(-1)
    shares = torch.where(total[:, None] > 0, weights / total[:, None], torch.zeros_like(weights))
    mean = (shares * distance).sum(-1)
    std = (shares * (distance - mean[:, None]) ** 2).sum(-1).sqrt()
    strongest = weights.max(-1)
    return RowStatistics(-(weights * logs).sum(-1), mean, std, strongest.indices, strongest.values)


def mass(
    weights: Float[Tensor, "query key"],
    query_label: Int[Tensor, " query"],
    key_label: Int[Tensor, " key"],
    exclude_self: bool = False,
) -> Float[Tensor, " query"]:
    """How much of each row lands where the labels are equal. Label −1 matches nothing."""
    n_query, n_key = weights.shape
    equal = (query_label[:, None] == key_label[None, :]) & (query_label[:, None] != -1)
    if exclude_self:
        itself = torch.arange(n_query)[:, None] + n_key - n_query == torch.arange(n_key)
        equal = equal & ~itself
    return (weights * equal).sum(-1)
