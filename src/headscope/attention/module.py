"""Multi-head attention as one batched PyTorch module: MHA, GQA and MQA, self- and cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from headscope.attention import convert
from headscope.attention.backends.sdpa import masked_attention
from headscope.attention.masks import FULL, Mask
from headscope.attention.observer import Call, attend, current
from headscope.attention.rope import Rope
from headscope.attention.scores import Scores
from headscope.checked import checked, summary
from headscope.errors import ShapeError

WIDEST = 2**20


class _ByHead(NamedTuple):
    """The layer's output, and each head's part of it: ``parts.sum(1) + bias == output``."""

    output: Float[Tensor, "batch query d_model"]
    parts: Float[Tensor, "batch head query d_model"]

    def __repr__(self) -> str:
        return summary(self)


class MultiHeadAttention(nn.Module):
    """``n_heads`` attention heads over the same tokens, their z concatenated and multiplied by W_O.

    With ``n_kv_heads`` smaller than ``n_heads``, groups of heads share keys and values (GQA; 1 is MQA). ``d_context``
    is the width of the context in cross-attention. By default only W_O has a bias.
    """

    @checked
    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        *,
        bias: bool = False,
        out_bias: bool = True,
        rope: Rope | None = None,
        qk_norm: bool = False,
        dropout: float = 0.0,
        d_context: int | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        self.d_head = _check_sizes(d_model, n_heads, n_kv_heads, d_head)
        if not 0.0 <= dropout < 1.0:
            raise ShapeError(
                f"{dropout=} is the probability to drop a weight; give a number from 0 up to, not including, 1"
            )
        if d_context is not None and not 1 <= d_context <= WIDEST:
            raise ShapeError(f"{d_context=} must be at least 1 and at most {WIDEST:,}")
        if rope is not None and rope.d_rotary > self.d_head:
            raise ShapeError(f"RoPE rotates {rope.d_rotary} entries of each head, but d_head={self.d_head}")
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.scale = self.d_head**-0.5
        self.d_context = d_model if d_context is None else d_context
        self.rope, self.dropout = rope, dropout
        self.q_proj = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.k_proj = nn.Linear(self.d_context, n_kv_heads * self.d_head, bias=bias)
        self.v_proj = nn.Linear(self.d_context, n_kv_heads * self.d_head, bias=bias)
        self.o_proj = nn.Linear(n_heads * self.d_head, d_model, bias=out_bias)
        self.q_norm = nn.RMSNorm(self.d_head) if qk_norm else None
        self.k_norm = nn.RMSNorm(self.d_head) if qk_norm else None

    def forward(
        self,
        x: Num[Tensor, "batch query d_model"],
        context: Num[Tensor, "batch key d_context"] | None = None,
        *,
        mask: Mask | None = None,
        cache: LayerKVCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Compute what the layer adds to the residual stream. Without a mask, every token attends to every other."""
        return self.o_proj(self._z(x, context, mask, cache).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def by_head(
        self,
        x: Num[Tensor, "batch query d_model"],
        context: Num[Tensor, "batch key d_context"] | None = None,
        *,
        mask: Mask | None = None,
        cache: LayerKVCache | None = None,
    ) -> _ByHead:
        """Compute the output, and each head's part of it through its own rows of W_O."""
        z = self._z(x, context, mask, cache)
        parts = torch.einsum("bhqd,hdm->bhqm", z, self.output_weight())
        return _ByHead(self.o_proj(z.transpose(1, 2).flatten(2)), parts)

    def patterns(
        self,
        x: Num[Tensor, "batch query d_model"],
        context: Num[Tensor, "batch key d_context"] | None = None,
        *,
        mask: Mask | None = None,
        heads: Sequence[int] | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """Compute the attention patterns of these heads, or of all."""
        wanted = list(range(self.n_heads)) if heads is None else list(heads)
        if any(not 0 <= head < self.n_heads for head in wanted):
            raise ShapeError(f"heads={wanted}: this module has heads 0–{self.n_heads - 1}")
        q, k, _ = self.project(x, context)
        group, offset = self.n_heads // self.n_kv_heads, k.shape[2] - q.shape[2]
        scores = Scores(mask=FULL if mask is None else mask).bind(q, k)
        rows, columns = torch.arange(q.shape[2], device=q.device), torch.arange(k.shape[2], device=q.device)
        allowed = scores.mask.block(rows, columns, offset)
        masked = ~(allowed[:, wanted] if allowed.shape[1] > 1 else allowed)
        logits = scores.before_mask(q[:, wanted], k[:, [head // group for head in wanted]], rows, columns, offset)
        return torch.softmax(logits.masked_fill(masked, float("-inf")), dim=-1).nan_to_num(0.0)

    def project(
        self,
        x: Num[Tensor, "batch query d_model"],
        context: Num[Tensor, "batch key d_context"] | None = None,
        *,
        start: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute q, k and v, ``[batch, head, position, d_head]``, with QK-norm and RoPE; x begins at ``start``."""
        batch, n_query, n_key = self._check_input(x, context)
        source = x if context is None else context
        q = self.q_proj(x).view(batch, n_query, self.n_heads, self.d_head)
        k = self.k_proj(source).view(batch, n_key, self.n_kv_heads, self.d_head)
        v = self.v_proj(source).view(batch, n_key, self.n_kv_heads, self.d_head).transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if self.rope is not None:
            table = self.rope.span(start, start + n_query, like=q)
            q, k = self.rope.turn(q, table), self.rope.turn(k, table)
        return q, k, v

    def output_weight(self) -> Float[Tensor, "head d_head d_model"]:
        """W_O, split into each head's rows."""
        return self.o_proj.weight.T.view(self.n_heads, self.d_head, self.d_model)

    def split(self) -> list[MultiHeadAttention]:
        """Return every head as a separate module; their outputs add up to this one's."""
        return convert.split(self)

    @staticmethod
    def from_heads(heads: Sequence[MultiHeadAttention], n_kv_heads: int | None = None) -> MultiHeadAttention:
        """Combine single heads into one module; its output is the sum of theirs."""
        return convert.from_heads(heads, n_kv_heads)

    @staticmethod
    def from_torch(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
        """Convert PyTorch's module, exactly."""
        return convert.from_torch(theirs)

    def to_torch(self) -> nn.MultiheadAttention:
        """Convert to PyTorch's module, exactly, or raise a ShapeError where PyTorch's cannot do the same."""
        return convert.to_torch(self)

    def parameter_table(self) -> convert.ParameterTable:
        """Count the parameters of each matrix."""
        return convert.parameter_table(self)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, d_head={self.d_head}"

    def _z(
        self, x: Tensor, context: Tensor | None, mask: Mask | None, cache: LayerKVCache | None
    ) -> Float[Tensor, "batch head query d_head"]:
        q, k, v = self.project(x, context, start=0 if cache is None else cache.length)
        if cache is not None:
            if context is not None:
                raise ShapeError("a KV cache is for self-attention; pass cache= or context=, not both")
            k, v = cache.extend(k, v)
        mask, dropout = FULL if mask is None else mask, self.dropout if self.training else 0.0
        if current() is None:  # at small sizes, making a Call costs more than the attention itself
            return masked_attention(q, k, v, mask, None, dropout)
        return attend(Call(self, q, k, v, Scores(scale=self.scale, mask=mask), dropout))

    def _check_input(self, x: Tensor, context: Tensor | None) -> tuple[int, int, int]:
        """Return the batch size, the number of queries and the number of keys."""
        shape = x.shape  # read once: at small sizes such attribute reads are much of a forward pass
        fits = len(shape) == 3 and shape[2] == self.d_model and x.is_floating_point()
        if fits and context is None and self.d_context == self.d_model:
            return shape[0], shape[1], shape[1]
        for name, tensor, width in (("x", x, self.d_model), ("context", context, self.d_context)):
            if tensor is None:
                raise ShapeError(f"this module attends to a context of width {self.d_context}; pass context=")
            if not tensor.is_floating_point():
                raise ShapeError(f"{name} holds {tensor.dtype}; attention takes vectors, so embed the tokens first")
            if tensor.ndim != 3 or tensor.size(2) != width:
                raise ShapeError(f"{name} has shape {tuple(tensor.shape)}; expected (batch, position, {width})")
        if context is not None and len(context) != len(x):
            raise ShapeError(f"x has batch {len(x)} and context has batch {len(context)}; give one context per item")
        if self.rope is not None:
            raise ShapeError(
                "RoPE needs query and key positions in one text, and cross-attention has two; build it without rope"
            )
        assert context is not None, "self-attention has returned above"
        return shape[0], shape[1], context.shape[1]


def _check_sizes(d_model: int, n_heads: int, n_kv_heads: int, d_head: int | None) -> int:
    """Return d_head, or raise a ShapeError for sizes that do not fit."""
    if min(d_model, n_heads, n_kv_heads) < 1:
        raise ShapeError(f"sizes must be at least 1: {d_model=}, {n_heads=}, {n_kv_heads=}")
    if max(d_model, n_heads * (d_head or 1)) > WIDEST:
        raise ShapeError(f"{d_model=}, {n_heads=}, {d_head=}: a module is at most {WIDEST:,} wide")
    if n_heads % n_kv_heads:
        raise ShapeError(f"{n_heads=} is not a multiple of {n_kv_heads=}; for multi-query attention use n_kv_heads=1")
    if d_head is None:
        if d_model % n_heads:
            raise ShapeError(f"{d_model=} does not divide into {n_heads=}; give d_head yourself, or change one of them")
        return d_model // n_heads
    if d_head < 1:
        raise ShapeError(f"{d_head=} must be at least 1")
    return d_head


class KVCache:
    """Keys and values of all layers, for up to ``capacity`` tokens. After each step the model calls ``advance``.

    >>> cache = KVCache(attention, n_layers=2, batch=1, capacity=512)  # doctest: +SKIP
    >>> for layer, block in enumerate(blocks): x = block(x, cache=cache[layer])  # doctest: +SKIP
    >>> cache.advance(x.shape[1])  # doctest: +SKIP
    """

    @checked
    def __init__(self, like: MultiHeadAttention, *, n_layers: int = 1, batch: int = 1, capacity: int) -> None:
        if min(n_layers, batch, capacity) < 1:
            raise ShapeError(f"sizes must be at least 1: {n_layers=}, {batch=}, {capacity=}")
        if (numbers := 2 * n_layers * batch * like.n_kv_heads * capacity * like.d_head) > 2**40:
            raise ShapeError(f"this cache would hold {numbers:,} numbers: {n_layers=}, {batch=}, {capacity=}")
        weight = like.k_proj.weight
        shape = (n_layers, batch, like.n_kv_heads, capacity, like.d_head)
        self.keys = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        self.values = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        self.capacity = capacity
        self.length = 0

    def __getitem__(self, layer: int) -> LayerKVCache:
        if not 0 <= layer < len(self.keys):
            raise ShapeError(f"layer {layer}: this cache has layers 0–{len(self.keys) - 1}; make it with more n_layers")
        return LayerKVCache(self, layer)

    def advance(self, n_tokens: int) -> None:
        """Keep the tokens that the layers have just written."""
        self._check_capacity(n_tokens)
        self.length += n_tokens

    def _check_capacity(self, n_tokens: int) -> None:
        if self.length + n_tokens > self.capacity:
            raise ShapeError(
                f"the cache is full: it holds {self.length} of {self.capacity} tokens and {n_tokens} more were given; "
                "make it with a larger capacity"
            )


class LayerKVCache:
    """The keys and values of one layer."""

    def __init__(self, cache: KVCache, layer: int) -> None:
        self.cache = cache
        self.layer = layer

    @property
    def length(self) -> int:
        return self.cache.length

    def extend(
        self, k: Float[Tensor, "batch kv new d"], v: Float[Tensor, "batch kv new d"]
    ) -> tuple[Float[Tensor, "batch kv key d"], Float[Tensor, "batch kv key d"]]:
        """Write new keys and values after the kept ones, and return all of them, without gradient."""
        cache, new = self.cache, k.shape[2]
        cache._check_capacity(new)
        if k.shape[:2] != cache.keys.shape[1:3] or k.shape[3] != cache.keys.shape[4]:
            raise ShapeError(
                f"new keys of shape {tuple(k.shape)} do not fit a cache for batch {cache.keys.shape[1]}, "
                f"{cache.keys.shape[2]} KV heads of {cache.keys.shape[4]}"
            )
        stop = cache.length + new
        cache.keys[self.layer, :, :, cache.length : stop] = k.detach()
        cache.values[self.layer, :, :, cache.length : stop] = v.detach()
        return cache.keys[self.layer, :, :, :stop], cache.values[self.layer, :, :, :stop]
