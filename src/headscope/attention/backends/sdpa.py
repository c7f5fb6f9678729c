"""Attention with nobody watching: PyTorch's fused call wherever the scores allow it. Gradients flow.

A mask or bias that PyTorch wants written out is written for some rows at a time, against the keys that those rows can
reach: never as large as queries × keys, and a window costs what it is wide.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headscope.attention.masks import FULL, Causal, Mask, Window
from headscope.attention.scores import Scores

ROWS = {"cpu": 512, "cuda": 1024}
"""Query rows at once where a mask must be written out, as measured; elsewhere as on a CPU."""


def attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv key d_head"],
    v: Float[Tensor, "batch kv key d_value"],
    scores: Scores,
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_value"]:
    """z = softmax(scores) · v."""
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
    """The common case, a scale and a mask and nothing more, with as little as possible before PyTorch's own call."""
    q_shape, k_shape = q.shape, k.shape
    grouped, n_query, n_key = q_shape[1] != k_shape[1], q_shape[2], k_shape[2]
    if mask.is_causal:
        if n_query == n_key:
            if grouped or scale is not None:
                return F.scaled_dot_product_attention(q, k, v, None, dropout, True, scale=scale, enable_gqa=grouped)
            return F.scaled_dot_product_attention(q, k, v, None, dropout, True)
        if n_query == 1:  # one new token after a cache sees every key: causality asks nothing of it
            mask = FULL
    if mask.is_full:
        return F.scaled_dot_product_attention(q, k, v, None, dropout, scale=scale, enable_gqa=grouped)
    bound = mask.bind(q_shape[0], q_shape[1], n_query, n_key)
    scale = q_shape[3] ** -0.5 if scale is None else scale
    return _by_rows(q, k, v, Scores(scale=scale, mask=bound), dropout)


def _by_rows(q: Tensor, k: Tensor, v: Tensor, scores: Scores, dropout: float) -> Tensor:
    """``scores`` is bound. Rows know nothing of each other, so a few at a time give the same as all at once."""
    n_query, n_key = q.shape[2], k.shape[2]
    at_once = ROWS.get(q.device.type, ROWS["cpu"])
    if n_query <= at_once:
        return _rows(q, k, v, scores, (0, n_query, 0, n_key), dropout)
    pieces = []
    for start in range(0, n_query, at_once):
        stop = min(start + at_once, n_query)
        reach = scores.mask.visible_to_any(start, stop, n_key - n_query, n_key)
        pieces.append(_rows(q, k, v, scores, (start, stop, *reach), dropout))
    return torch.cat(pieces, dim=2)


def _rows(q: Tensor, k: Tensor, v: Tensor, scores: Scores, at: tuple[int, int, int, int], dropout: float) -> Tensor:
    """Queries ``start:stop`` against keys ``low:high``, which are all that these can see."""
    start, stop, low, high = at
    offset = k.shape[2] - q.shape[2]
    rows, columns = torch.arange(start, stop, device=q.device), torch.arange(low, high, device=q.device)
    if (start, stop, low, high) != (0, q.shape[2], 0, k.shape[2]):
        q, k, v = q[:, :, start:stop], k[:, :, low:high], v[:, :, low:high]
    if scores.softcap is not None or scores.sinks is not None or low == high:
        return _written_out(q, k, v, scores.block(q, k, rows, columns, offset), scores, dropout)
    shown, blind = _open_blind_rows(scores.mask, rows, columns, offset)
    if scores.bias is not None:
        assert not isinstance(scores.bias, Tensor), "tensors are wrapped when Scores is made"
        shown = scores.bias.block(rows, columns, offset).to(q.dtype).masked_fill(~shown, float("-inf"))
    grouped = q.shape[1] != k.shape[1]
    if grouped and q.is_cuda and q.dtype == torch.float32:  # no fused call of PyTorch's takes all three
        k, v = (tensor.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for tensor in (k, v))
        grouped = False
    z = F.scaled_dot_product_attention(q, k, v, shown, dropout, scale=scores.scale, enable_gqa=grouped)
    return z if blind is None else z.masked_fill(blind, 0.0)


def _open_blind_rows(mask: Mask, rows: Tensor, columns: Tensor, offset: int) -> tuple[Tensor, Tensor | None]:
    """Who may look where, and the rows that may look nowhere.

    Kernels differ on such rows (NaN, an average, zeros), and NaN would reach every gradient. So these rows are shown
    everything, and what they then deliver is thrown away.
    """
    allowed = mask.block(rows, columns, offset)
    if _sees_itself(mask, offset):
        return allowed, None
    blind = ~allowed.any(-1, keepdim=True)
    return allowed | blind, blind


def _sees_itself(mask: Mask, offset: int) -> bool:
    """Whether the kind of mask alone tells that no row is blind: each may see the key at its own place."""
    return offset >= 0 and all(isinstance(part, Causal | Window) for part in mask.parts)


def _written_out(q: Tensor, k: Tensor, v: Tensor, logits: Tensor, scores: Scores, dropout: float) -> Tensor:
    """Softcap and sinks have no fused call in PyTorch: scores, softmax and weighing, one after the other."""
    n_query, n_key = q.shape[2], k.shape[2]
    if scores.sinks is not None:
        sink = scores.sinks.to(logits.dtype)[None, :, None, None].expand(q.shape[0], -1, n_query, 1)
        logits = torch.cat((logits, sink), dim=-1)
    blind = logits.isneginf().all(-1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)[..., :n_key]
    weights = F.dropout(weights, dropout).to(v.dtype)
    per_group = q.shape[1] // k.shape[1] * n_query  # not -1: a band of rows may reach no key at all
    grouped = weights.reshape(q.shape[0], k.shape[1], per_group, n_key)
    return (grouped @ v).view(*q.shape[:3], v.shape[-1])
