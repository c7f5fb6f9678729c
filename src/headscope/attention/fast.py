"""Attention with nobody watching: PyTorch's fused call wherever the scores allow it. Gradients flow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.masks import FULL, Causal, Mask, Window
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
    assert bound.scale is not None, "bind() fills the scale in"
    if bound.softcap is not None or bound.sinks is not None:
        return _written_out(q, k, v, bound, dropout)
    if bound.bias is None:
        return masked_attention(q, k, v, bound.mask, bound.scale, dropout)
    allowed, blind = _open_blind_rows(bound.mask, q, k)
    assert not isinstance(bound.bias, Tensor), "tensors are wrapped when Scores is made"
    bias = bound.bias.block(*_places(q, k)).to(q.dtype).masked_fill(~allowed, float("-inf"))
    z = F.scaled_dot_product_attention(q, k, v, bias, dropout, scale=bound.scale, enable_gqa=q.shape[1] != k.shape[1])
    return z if blind is None else z.masked_fill(blind, 0.0)


def masked_attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    mask: Mask,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_value"]:
    """The common case, a scale and a mask and nothing more, with as little as possible before PyTorch's own call."""
    grouped, n_query, n_key = q.size(1) != k.size(1), q.size(2), k.size(2)
    if mask.is_causal:
        if n_query == n_key:
            return F.scaled_dot_product_attention(q, k, v, None, dropout, True, scale=scale, enable_gqa=grouped)
        if n_query == 1:  # one new token after a cache sees every key: causality asks nothing of it
            mask = FULL
    if mask.is_full:
        return F.scaled_dot_product_attention(q, k, v, None, dropout, scale=scale, enable_gqa=grouped)
    allowed, blind = _open_blind_rows(mask.bind(q.size(0), q.size(1), n_query, n_key), q, k)
    z = F.scaled_dot_product_attention(q, k, v, allowed, dropout, scale=scale, enable_gqa=grouped)
    return z if blind is None else z.masked_fill(blind, 0.0)


def _open_blind_rows(mask: Mask, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor | None]:
    """Who may look where, and the rows that may look nowhere.

    Kernels differ on such rows (NaN, an average, zeros), and NaN would reach every gradient. So these rows are shown
    everything, and what they then deliver is thrown away.
    """
    rows, columns, offset = _places(q, k)
    allowed = mask.block(rows, columns, offset)
    if _sees_itself(mask, offset):
        return allowed, None
    blind = ~allowed.any(-1, keepdim=True)
    return allowed | blind, blind


def _places(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, int]:
    n_query, n_key = q.shape[2], k.shape[2]
    return torch.arange(n_query, device=q.device), torch.arange(n_key, device=q.device), n_key - n_query


def _sees_itself(mask: Mask, offset: int) -> bool:
    """Whether the kind of mask alone tells that no row is blind: each may see the key at its own place."""
    return offset >= 0 and all(isinstance(part, Causal | Window) for part in mask.parts)


def _written_out(q: Tensor, k: Tensor, v: Tensor, scores: Scores, dropout: float) -> Tensor:
    """Softcap and sinks have no fused call in PyTorch: scores, softmax and weighing, one after the other."""
    n_query, n_key = q.shape[2], k.shape[2]
    logits = scores.block(q, k, *_places(q, k))
    if scores.sinks is not None:
        sink = scores.sinks.to(logits.dtype)[None, :, None, None].expand(q.shape[0], -1, n_query, 1)
        logits = torch.cat((logits, sink), dim=-1)
    blind = logits.isneginf().all(-1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)[..., :n_key]
    weights = F.dropout(weights, dropout).to(v.dtype)
    grouped = weights.reshape(q.shape[0], k.shape[1], -1, n_key)
    return (grouped @ v).view(*q.shape[:3], v.shape[-1])
