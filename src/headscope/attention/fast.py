"""Attention with nobody watching: PyTorch's fused call wherever the scores allow it. Gradients flow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

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
    n_query, n_key = q.shape[2], k.shape[2]
    mask = bound.mask
    causal = mask.is_causal and bound.bias is None and n_query == n_key
    # One new token after a cache sees every key: causality asks nothing of it.
    open_row = mask.is_full or causal or (mask.is_causal and n_query == 1)
    extra = None if open_row and bound.bias is None else _additive(q, k, bound)
    z = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=extra,
        dropout_p=dropout,
        is_causal=causal,
        scale=bound.scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return z if extra is None else _silence_blind_rows(z, bound, n_query, n_key)


def _additive(q: Tensor, k: Tensor, scores: Scores) -> Tensor:
    """The mask, and the bias under it, in the form the fused call takes."""
    n_query, n_key, device = q.shape[2], k.shape[2], q.device
    allowed = scores.mask.dense(n_query, n_key, device)
    if scores.bias is None:
        return allowed
    assert not isinstance(scores.bias, Tensor)
    rows, columns = torch.arange(n_query, device=device), torch.arange(n_key, device=device)
    bias = scores.bias.block(rows, columns, n_key - n_query).to(q.dtype)
    return bias.masked_fill(~allowed, float("-inf"))


def _silence_blind_rows(z: Tensor, scores: Scores, n_query: int, n_key: int) -> Tensor:
    """Rows that may look nowhere deliver zeros: some kernels leave NaN there, others an average."""
    sees = scores.mask.dense(n_query, n_key, z.device).any(-1)
    return z.masked_fill(~sees[..., None], 0.0)


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
