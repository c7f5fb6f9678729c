"""KV cache: keep keys and values between decoding steps, so that a new token costs one row of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import ShapeError

if TYPE_CHECKING:
    from headscope.attention.module import MultiHeadAttention


class KVCache:
    """Keys and values of all layers, for up to ``capacity`` tokens. After each step the model calls ``advance``.

    >>> cache = KVCache(attention, n_layers=2, batch=1, capacity=512)  # doctest: +SKIP
    >>> for layer, block in enumerate(blocks): x = block(x, cache=cache[layer])  # doctest: +SKIP
    >>> cache.advance(x.shape[1])  # doctest: +SKIP
    """

    def __init__(self, like: MultiHeadAttention, *, n_layers: int = 1, batch: int = 1, capacity: int) -> None:
        if min(n_layers, batch, capacity) < 1:
            raise ShapeError(f"sizes must be at least 1: {n_layers=}, {batch=}, {capacity=}")
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

    def rewind(self, length: int = 0) -> None:
        """Drop everything after the first ``length`` tokens."""
        if not 0 <= length <= self.length:
            raise ShapeError(f"cannot rewind to {length}: the cache holds {self.length} tokens")
        self.length = length

    def _check_capacity(self, n_tokens: int) -> None:
        if self.length + n_tokens > self.capacity:
            raise ShapeError(
                f"the cache is full: it holds {self.length} of {self.capacity} tokens and {n_tokens} more were given; "
                "make it with a larger capacity, or rewind() it"
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
