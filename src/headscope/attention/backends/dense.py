"""The dense backend: build the whole pattern and compute every statistic from it, by definition, for any Scores."""

from __future__ import annotations

from collections.abc import Mapping, Set

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observation import Distance, Rows, Statistic, Strongest
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

LARGEST = 2**31  # bytes of the pattern


def refuse(q: Tensor, k: Tensor, _v: Tensor, _scores: Scores) -> str | None:
    """Return why this backend cannot run the request, or None."""
    size = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * 4
    if size > LARGEST:
        return f"dense stores the pattern, {size / 1e9:.1f} GB here"
    return None


def observe(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    questions: Mapping[str, Question],
    statistics: Set[Statistic],
) -> Rows:
    """Compute every statistic from the pattern itself. ``scores`` is bound."""
    batch, n_heads, n_query, _ = q.shape
    n_kv_heads, n_key = k.shape[1], k.shape[2]
    logsumexp, weights = _pattern(q, k, scores)
    z = (weights.reshape(batch, n_kv_heads, -1, n_key) @ v.to(weights.dtype)).view(batch, n_heads, n_query, v.shape[-1])
    return Rows(
        output=z.to(v.dtype),
        logsumexp=logsumexp,
        entropy=_entropy(weights, scores, logsumexp) if "entropy" in statistics else None,
        distance=_distance(weights) if "distance" in statistics else None,
        strongest=_strongest(weights) if "strongest" in statistics else None,
        mass={name: _mass(weights, question) for name, question in questions.items()},
    )


def _pattern(q: Tensor, k: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
    n_query, n_key = q.shape[2], k.shape[2]
    rows, columns = torch.arange(n_query, device=q.device), torch.arange(n_key, device=q.device)
    logits = scores.block(q, k, rows, columns, n_key - n_query)
    sinks = None if scores.sinks is None else scores.sinks.to(logits)[None, :, None, None]
    top = logits.amax(-1, keepdim=True)
    top = top if sinks is None else torch.maximum(top, sinks)
    top = top.masked_fill(top.isneginf(), 0.0)
    parts = torch.exp(logits - top)  # less their maximum: less a large log-sum-exp, they would lose digits
    total = parts.sum(-1, keepdim=True)
    total = total if sinks is None else total + torch.exp(sinks - top)
    return (total.log() + top)[..., 0], parts / total.clamp(min=torch.finfo(total.dtype).tiny)


def _entropy(weights: Tensor, scores: Scores, logsumexp: Tensor) -> Tensor:
    total: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    if scores.sinks is None:
        return total
    sink = scores.sink_weight(logsumexp)
    with_sink: Tensor = total - torch.special.xlogy(sink, sink)
    return with_sink


def _distance(weights: Tensor) -> Distance:
    n_query, n_key = weights.shape[-2:]
    rows, columns = (torch.arange(n, device=weights.device, dtype=weights.dtype) for n in (n_query, n_key))
    distance = rows[:, None] + (n_key - n_query) - columns
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    mean = (shares * distance).sum(-1)
    variance = (shares * (distance - mean[..., None]) ** 2).sum(-1)
    return Distance(mean, variance.sqrt())


def _strongest(weights: Tensor) -> Strongest:
    top = weights.max(-1)
    return Strongest(torch.where(top.values > 0, top.indices, -1), top.values)


def _mass(weights: Tensor, question: Question) -> Tensor:
    n_query, n_key = weights.shape[-2:]
    query, key = question.query.to(weights.device)[:, :, None], question.key.to(weights.device)[:, None, :]
    equal = (query == key) & (query != -1)
    if question.exclude_self:
        position = torch.arange(n_query, device=weights.device)[:, None] + n_key - n_query
        equal = equal & (position != torch.arange(n_key, device=weights.device))
    return (weights * equal[:, None]).sum(-1)
