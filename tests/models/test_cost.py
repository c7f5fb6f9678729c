"""Parameters, FLOPs and KV cache, counted again from the shapes of the weights."""

from __future__ import annotations

import pytest
from tests.models import tiny

from headscope.heads.pruning import cost
from headscope.models.loading import open_model


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_a_small_llama_by_hand(length: int) -> None:
    model = tiny.llama()
    opened = open_model(model)
    found = cost(opened, length)
    opened.close()
    layers, width, heads, kv, d_head, middle, words = 2, 32, 4, 2, 8, 48, 97
    by_layer = width * d_head * (heads + kv + kv) + heads * d_head * width
    mlp = 3 * width * middle
    pairs = layers * heads * 2 * (d_head + d_head) * length
    assert (found.heads, found.kv_heads, found.length) == (8, 4, length)
    assert found.attention_parameters == layers * by_layer
    assert found.parameters == sum(weight.numel() for weight in model.parameters())
    assert found.attention_flops == 2 * layers * by_layer + pairs
    assert found.flops == 2 * (layers * (by_layer + mlp) + width * words) + pairs
    assert found.kv_numbers == layers * kv * 2 * d_head


def test_a_window_bounds_the_flops() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "sliding_window": 5, "head_dim": 8}
    opened = open_model(tiny.build("MistralConfig", "MistralForCausalLM", **sizes))
    short, long, longer = (cost(opened, length) for length in (4, 50, 5000))
    opened.close()
    assert long.attention_flops == longer.attention_flops
    assert long.attention_flops - short.attention_flops == 2 * 4 * 2 * 16 * (5 - 4)
