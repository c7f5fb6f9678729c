"""The definition of multi-head attention and of the statistics of a head: plain, slow, and meant to be read first.

One head scores every key against every query (q·k), turns each row of scores into weights that sum to one (softmax),
and returns the sum of the values weighted by them, z. Several heads do so side by side; their z are concatenated and
multiplied by one matrix, W_O. Nothing here is optimised: every other implementation is tested against this file.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class HeadWeights(NamedTuple):
    """The query, key and value matrices of one head."""

    W_Q: Float[Tensor, "d_model d_head"]
    W_K: Float[Tensor, "d_context d_head"]
    W_V: Float[Tensor, "d_context d_value"]


class Attended(NamedTuple):
    """One head's attention pattern, and its z: the values weighted by the pattern."""

    weights: Float[Tensor, "query key"]
    z: Float[Tensor, "query d_value"]


def softmax(scores: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """Softmax of each row; a fully masked row gives zeros."""
    highest = scores.max(dim=-1, keepdim=True).values  # (query, 1)
    powers = torch.exp(scores - highest.where(highest.isfinite(), torch.zeros_like(highest)))  # (query, key)
    total = powers.sum(dim=-1, keepdim=True)  # (query, 1)
    return torch.where(total > 0, powers / total, torch.zeros_like(powers))


def attend(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    v: Float[Tensor, "key d_value"],
    allowed: Bool[Tensor, "query key"],
    scale: float,
) -> Attended:
    """One head, from its queries, keys and values."""
    scores = (q @ k.T) * scale  # (query, d_head) x (d_head, key) -> (query, key)
    return weigh(scores, v, allowed)


def weigh(
    scores: Float[Tensor, "query key"], v: Float[Tensor, "key d_value"], allowed: Bool[Tensor, "query key"]
) -> Attended:
    """Mask, softmax and weighted sum of the values: one head, from its scores."""
    weights = softmax(scores.masked_fill(~allowed, float("-inf")))  # (query, key), each row sums to 1
    return Attended(weights, weights @ v)  # (query, key) x (key, d_value) -> (query, d_value)


def one_head(
    x: Float[Tensor, "query d_model"],
    context: Float[Tensor, "key d_context"],
    head: HeadWeights,
    allowed: Bool[Tensor, "query key"],
) -> Attended:
    """One head, from the residual stream: project, then attend. In self-attention the context is x itself."""
    q, k, v = x @ head.W_Q, context @ head.W_K, context @ head.W_V  # (query, d_head), (key, d_head), (key, d_value)
    return attend(q, k, v, allowed, scale=q.shape[-1] ** -0.5)


def multi_head(
    x: Float[Tensor, "query d_model"],
    context: Float[Tensor, "key d_context"],
    heads: list[HeadWeights],
    W_O: Float[Tensor, "concatenated d_model"],
    allowed: Bool[Tensor, "query key"],
) -> Float[Tensor, "query d_model"]:
    """Several heads: a loop over single ones, their z concatenated and multiplied by W_O."""
    z = [one_head(x, context, head, allowed).z for head in heads]  # n_heads times (query, d_value)
    return torch.cat(z, dim=-1) @ W_O  # (query, n_heads * d_value) x (n_heads * d_value, d_model) -> (query, d_model)


class RowStatistics(NamedTuple):
    """Statistics of each row of one head's pattern: weighted sums and maxima over the keys."""

    entropy: Float[Tensor, " query"]
    distance_mean: Float[Tensor, " query"]
    distance_std: Float[Tensor, " query"]
    strongest_key: Int[Tensor, " query"]
    strongest_weight: Float[Tensor, " query"]


def row_statistics(weights: Float[Tensor, "query key"]) -> RowStatistics:
    """Compute the statistics from the pattern. Entropy is in nats; distance is query position minus key position."""
    n_query, n_key = weights.shape
    logs = torch.where(weights > 0, weights.log(), torch.zeros_like(weights))
    distance = (torch.arange(n_query)[:, None] + n_key - n_query - torch.arange(n_key)).to(weights.dtype)
    total = weights.sum(-1)  # below 1 where a learned sink takes the rest
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
    """Sum each row's weights over the keys whose label equals the query's. Label −1 matches nothing."""
    n_query, n_key = weights.shape
    equal = (query_label[:, None] == key_label[None, :]) & (query_label[:, None] != -1)
    if exclude_self:
        itself = torch.arange(n_query)[:, None] + n_key - n_query == torch.arange(n_key)
        equal = equal & ~itself
    return (weights * equal).sum(-1)
