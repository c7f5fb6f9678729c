"""Attention without statistics, by PyTorch's ``scaled_dot_product_attention`` wherever it can. Gradients flow.

Where PyTorch needs the mask or bias as a tensor, it is made for some rows at a time, against the keys that those rows
may attend to: it is never as large as queries × keys, and a sliding window costs no more than its width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.masks import FULL, Causal, Mask, Window
from headscope.attention.scores import Scores

ROWS = {"cpu": 512, "cuda": 1024}
"""Query rows at once where the mask must be a tensor, as measured; other devices as on a CPU."""


def attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_value"]:
    """Compute z = softmax(scores) · v."""
    bound = scores.bind(q, k)
    if bound.is_plain:
        return masked_attention(q, k, v, bound.mask, bound.scale, dropout)
    return _by_rows(q, k, v, bound, dropout)


def masked_attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    mask: Mask,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_value"]:
    """Compute z for only a scale and a mask, with as little overhead before PyTorch's call as possible."""
    q_shape, k_shape = q.shape, k.shape
    grouped, n_query, n_key = q_shape[1] != k_shape[1], q_shape[2], k_shape[2]
    if mask.is_causal:
        if n_query == n_key:
            if grouped or scale is not None:
                return F.scaled_dot_product_attention(q, k, v, None, dropout, True, scale=scale, enable_gqa=grouped)
            return F.scaled_dot_product_attention(q, k, v, None, dropout, True)
        if n_query == 1:  # one new token after a KV cache may attend to every key
            mask = FULL
    if mask.is_full:
        return F.scaled_dot_product_attention(q, k, v, None, dropout, scale=scale, enable_gqa=grouped)
    bound = mask.bind(q_shape[0], q_shape[1], n_query, n_key)
    scale = q_shape[3] ** -0.5 if scale is None else scale
    return _by_rows(q, k, v, Scores(scale=scale, mask=bound), dropout)


def _by_rows(q: Tensor, k: Tensor, v: Tensor, scores: Scores, dropout: float) -> Tensor:
    """Compute z for a few query rows at a time: rows are independent of each other. ``scores`` is bound."""
    n_query, n_key = q.shape[2], k.shape[2]
    at_once = ROWS.get(q.device.type, ROWS["cpu"])
    if n_query <= at_once:
        return _rows(q, k, v, scores, (0, n_query, 0, n_key), dropout)
    blocks = []
    for start in range(0, n_query, at_once):
        stop = min(start + at_once, n_query)
        visible = scores.mask.visible_to_any(start, stop, n_key - n_query, n_key)
        blocks.append(_rows(q, k, v, scores, (start, stop, *visible), dropout))
    return torch.cat(blocks, dim=2)


def _rows(q: Tensor, k: Tensor, v: Tensor, scores: Scores, at: tuple[int, int, int, int], dropout: float) -> Tensor:
    """Compute z for queries ``start:stop`` over keys ``low:high``; all other keys are masked for them."""
    start, stop, low, high = at
    offset = k.shape[2] - q.shape[2]
    rows, columns = torch.arange(start, stop, device=q.device), torch.arange(low, high, device=q.device)
    if (start, stop, low, high) != (0, q.shape[2], 0, k.shape[2]):
        q, k, v = q[:, :, start:stop], k[:, :, low:high], v[:, :, low:high]
    if scores.softcap is not None or scores.sinks is not None or low == high:
        return _unfused(q, k, v, scores.block(q, k, rows, columns, offset), scores, dropout)
    allowed, fully_masked = _allow_masked_rows(scores.mask, rows, columns, offset)
    if scores.bias is not None:
        assert not isinstance(scores.bias, Tensor), "tensors are wrapped when Scores is made"
        allowed = scores.bias.block(rows, columns, offset).to(q.dtype).masked_fill(~allowed, float("-inf"))
    grouped = q.shape[1] != k.shape[1]
    if grouped and q.is_cuda and q.dtype == torch.float32:  # no fused kernel of PyTorch takes all three
        k, v = (tensor.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for tensor in (k, v))
        grouped = False
    z = F.scaled_dot_product_attention(q, k, v, allowed, dropout, scale=scores.scale, enable_gqa=grouped)
    return z if fully_masked is None else z.masked_fill(fully_masked, 0.0)


def _allow_masked_rows(mask: Mask, rows: Tensor, columns: Tensor, offset: int) -> tuple[Tensor, Tensor | None]:
    """Return the mask with every key allowed in fully masked rows, and which rows these are.

    Kernels differ on such rows (NaN, an average, zeros), and NaN would reach every gradient. So they attend to all
    keys, and their z is set to zero afterwards.
    """
    allowed = mask.block(rows, columns, offset)
    if offset >= 0 and all(isinstance(part, Causal | Window) for part in mask.parts):
        return allowed, None  # every row may attend to its own position
    fully_masked = ~allowed.any(-1, keepdim=True)
    return allowed | fully_masked, fully_masked


def _unfused(q: Tensor, k: Tensor, v: Tensor, logits: Tensor, scores: Scores, dropout: float) -> Tensor:
    """Compute softmax and weighted sum step by step: PyTorch has no fused call for softcap and sinks."""
    n_query, n_key = q.shape[2], k.shape[2]
    if scores.sinks is not None:
        sink = scores.sinks.to(logits.dtype)[None, :, None, None].expand(q.shape[0], -1, n_query, 1)
        logits = torch.cat((logits, sink), dim=-1)
    fully_masked = logits.isneginf().all(-1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(fully_masked, 0.0), dim=-1).masked_fill(fully_masked, 0.0)[..., :n_key]
    weights = F.dropout(weights, dropout).to(v.dtype)
    per_group = q.shape[1] // k.shape[1] * n_query  # not -1: all keys may be masked for these rows
    grouped = weights.reshape(q.shape[0], k.shape[1], per_group, n_key)
    return (grouped @ v).view(*q.shape[:3], v.shape[-1])
