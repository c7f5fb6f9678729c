"""Attention with nobody watching: PyTorch's fused call wherever the scores allow it. Gradients flow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.masks import Causal, Mask, Window
from headscope.attention.scores import Scores


def attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_value"]:
    """z = softmax(scores) · v."""
    bound = scores.bind(q, k)
    if bound.softcap is not None or bound.sinks is not None:
        return _written_out(q, k, v, bound, dropout)
    if bound.bias is None and bound.mask.is_full:
        return _sdpa(q, k, v, bound, dropout)
    if bound.bias is None and bound.mask.is_causal:
        if q.shape[2] == k.shape[2]:
            return _sdpa(q, k, v, bound, dropout, is_causal=True)
        if q.shape[2] == 1:  # one new token after a cache sees every key: causality asks nothing of it
            return _sdpa(q, k, v, bound, dropout)
    extra, blind = _additive(bound, q, k.shape[2])
    z = _sdpa(q, k, v, bound, dropout, extra)
    return z if blind is None else z.masked_fill(blind, 0.0)


def _sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scores: Scores,
    dropout: float,
    extra: Tensor | None = None,
    *,
    is_causal: bool = False,
) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, extra, dropout, is_causal, scale=scores.scale, enable_gqa=grouped)


def _additive(scores: Scores, q: Tensor, n_key: int) -> tuple[Tensor, Tensor | None]:
    """The mask, and the bias under it, in the form the fused call takes; and the rows that may look nowhere.

    Kernels differ on such rows (NaN, an average, zeros), and NaN would reach every gradient. So these rows are shown
    everything, and what they then deliver is thrown away.
    """
    n_query, offset = q.shape[2], n_key - q.shape[2]
    rows, columns = torch.arange(n_query, device=q.device), torch.arange(n_key, device=q.device)
    allowed = scores.mask.block(rows, columns, offset)
    blind = None
    if not _sees_itself(scores.mask, offset):
        blind = ~allowed.any(-1, keepdim=True)
        allowed = allowed | blind
    if scores.bias is None:
        return allowed, blind
    assert not isinstance(scores.bias, Tensor), "tensors are wrapped when Scores is made"
    bias = scores.bias.block(rows, columns, offset).to(q.dtype)
    return bias.masked_fill(~allowed, float("-inf")), blind


def _sees_itself(mask: Mask, offset: int) -> bool:
    """Whether the kind of mask alone tells that no row is blind: each may see the key at its own place."""
    return offset >= 0 and all(isinstance(part, Causal | Window) for part in mask.parts)


def _written_out(q: Tensor, k: Tensor, v: Tensor, scores: Scores, dropout: float) -> Tensor:
    """Softcap and sinks have no fused call in PyTorch: scores, softmax and weighing, one after the other."""
    n_query, n_key = q.shape[2], k.shape[2]
    rows, columns = torch.arange(n_query, device=q.device), torch.arange(n_key, device=q.device)
    logits = scores.block(q, k, rows, columns, n_key - n_query)
    if scores.sinks is not None:
        sink = scores.sinks.to(logits.dtype)[None, :, None, None].expand(q.shape[0], -1, n_query, 1)
        logits = torch.cat((logits, sink), dim=-1)
    blind = logits.isneginf().all(-1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)[..., :n_key]
    weights = F.dropout(weights, dropout).to(v.dtype)
    grouped = weights.reshape(q.shape[0], k.shape[1], -1, n_key)
    return (grouped @ v).view(*q.shape[:3], v.shape[-1])
