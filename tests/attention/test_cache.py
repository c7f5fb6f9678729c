"""Attention with a KV cache equals attention over the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.masks import Mask, causal, window
from headscope.attention.module import KVCache, MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.errors import ShapeError


def in_steps(layers: list[MultiHeadAttention], x: Tensor, steps: list[int], mask: Mask) -> Tensor:
    """Two or more layers over x, a few tokens at a time."""
    cache = KVCache(layers[0], n_layers=len(layers), batch=len(x), capacity=sum(steps))
    done = []
    for new in x.split(steps, dim=1):
        for layer, attention in enumerate(layers):
            new = new + attention(new, mask=mask, cache=cache[layer])
        cache.advance(new.shape[1])
        done.append(new)
    assert cache.length == sum(steps)
    return torch.cat(done, dim=1)


@pytest.mark.parametrize("mask", [causal(), causal() & window(4)], ids=repr)
@pytest.mark.parametrize("steps", [[1] * 12, [12], [5, 1, 1, 4, 1]], ids=str)
@pytest.mark.parametrize("pairing", [None, "half", "interleaved"])
def test_step_by_step_equals_all_at_once(mask: Mask, steps: list[int], pairing: str | None) -> None:
    rope = None if pairing is None else Rope(6, pairing=pairing)
    layers = [MultiHeadAttention(16, 4, 2, d_head=6, rope=rope, qk_norm=True).double() for _ in range(2)]
    x = whole = torch.randn(3, 12, 16).double()
    for attention in layers:
        whole = whole + attention(whole, mask=mask)
    assert_close(in_steps(layers, x, steps, mask), whole)


def test_cached_keys_and_values_have_no_gradient() -> None:
    module = MultiHeadAttention(16, 2)
    cache = KVCache(module, capacity=4)
    for _ in range(2):
        module(torch.randn(1, 2, 16), mask=causal(), cache=cache[0])
        cache.advance(2)
    assert not cache.keys.requires_grad
    assert not cache.values.requires_grad


def filled(batch: int = 2) -> KVCache:
    """Two layers, six of eight tokens."""
    cache = KVCache(MultiHeadAttention(16, 4, 2), n_layers=2, batch=batch, capacity=8)
    cache.advance(6)
    return cache


def give(module: MultiHeadAttention, batch: int, n_tokens: int) -> object:
    return module(torch.randn(batch, n_tokens, 16), cache=filled()[0])


MODULE = MultiHeadAttention(16, 4, 2)

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "full": (
        lambda: give(MODULE, 2, 3),
        "the cache is full: it holds 6 of 8 tokens and 3 more were given; make it with a larger capacity",
    ),
    "full-cursor": (lambda: filled().advance(3), "the cache is full: it holds 6 of 8 tokens and 3 more were given"),
    "batch": (
        lambda: give(MODULE, 1, 1),
        "new keys of shape (1, 2, 1, 4) do not fit a cache for batch 2, 2 KV heads of 4",
    ),
    "heads": (
        lambda: give(MultiHeadAttention(16, 4, 1), 2, 1),
        "new keys of shape (2, 1, 1, 4) do not fit a cache for batch 2, 2 KV heads of 4",
    ),
    "width": (
        lambda: give(MultiHeadAttention(16, 4, 2, d_head=1), 2, 1),
        "new keys of shape (2, 2, 1, 1) do not fit a cache for batch 2, 2 KV heads of 4",
    ),
    "layer": (lambda: filled()[2], "layer 2: this cache has layers 0–1; make it with more n_layers"),
    "layer-below": (lambda: filled()[-1], "layer -1: this cache has layers 0–1"),
    "no-capacity": (lambda: KVCache(MODULE, capacity=0), "at least 1: n_layers=1, batch=1, capacity=0"),
    "no-layers": (lambda: KVCache(MODULE, n_layers=0, capacity=4), "at least 1: n_layers=0, batch=1, capacity=4"),
    "no-batch": (lambda: KVCache(MODULE, batch=0, capacity=4), "at least 1: n_layers=1, batch=0, capacity=4"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_fit_is_refused_with_its_values(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ShapeError, match=re.escape(message)):
        make()
