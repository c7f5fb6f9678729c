"""Parameters, KV cache and FLOPs of small models against sums written out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.lab.cards.card import Card, _make_card
from headscope.lab.cards.config_reader import read_config
from headscope.lab.cards.counting import Parameters, count_parameters

SIZES = {"hidden_size": 6, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 10, "vocab_size": 7}


def counted(model_type: str, **given: Any) -> Parameters:
    return count_parameters(read_config({"model_type": model_type, **SIZES, **given}))


def a_card(model_type: str, **given: Any) -> Card:
    return _make_card({"model_type": model_type, **SIZES, **given})


def test_a_llama_matrix_by_matrix() -> None:
    assert counted("llama", num_key_value_heads=1).parts == {
        "token embeddings": 7 * 6,
        "W_Q": 3 * 6 * 6,
        "W_K": 3 * 6 * 3,
        "W_V": 3 * 6 * 3,
        "W_O": 3 * 6 * 6,
        "FFN": 3 * (6 * 10 + 6 * 10 + 10 * 6),
        "norms": 3 * 2 * 6 + 6,
        "unembedding": 7 * 6,
    }


def test_a_gpt2_matrix_by_matrix() -> None:
    assert counted("gpt2", n_positions=5).parts == {
        "token embeddings": 7 * 6,
        "place embeddings": 5 * 6,
        "W_Q": 3 * (6 * 6 + 6),
        "W_K": 3 * (6 * 6 + 6),
        "W_V": 3 * (6 * 6 + 6),
        "W_O": 3 * (6 * 6 + 6),
        "FFN": 3 * (6 * 10 + 10 + 10 * 6 + 6),
        "norms": (3 * 2 + 1) * 2 * 6,
    }


def test_a_latent_layer_compresses_and_expands() -> None:
    sizes = {"kv_lora_rank": 5, "q_lora_rank": 4, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 7}
    parts = counted("deepseek_v3", **sizes).parts
    assert parts["W_Q"] == 3 * (6 * 4 + 4 + 4 * 2 * 5)
    assert parts["W_K and W_V, down"] == 3 * (6 * (5 + 2) + 5)
    assert parts["W_K and W_V, up"] == 3 * 5 * 2 * (3 + 7)
    assert parts["W_O"] == 3 * 2 * 7 * 6
    straight = counted("deepseek_v3", **(sizes | {"q_lora_rank": None})).parts
    assert straight["W_Q"] == 3 * 6 * 2 * 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.just(4)), min_size=3, max_size=3), st.integers(0, 9))
def test_cache_and_flops_token_by_token(windows: list[int | None], length: int) -> None:
    """Each layer keeps the tokens it can still see, and looks at those and at the newest one."""
    kinds = ["full_attention" if window is None else "sliding_attention" for window in windows]
    each = a_card("llama", layer_types=kinds, sliding_window=4, num_key_value_heads=1)
    kept = looked = 0
    for window in windows:
        reach = length + 1 if window is None else window
        kept += len([token for token in range(length) if token >= length - reach])
        looked += len([token for token in range(length + 1) if token > length - reach])
    assert each.kv_bytes(length) == kept * (3 + 3) * 2
    assert each.flops(length)["looking back"] == looked * 2 * (2 * 3 + 2 * 3)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "sees", "text_config": {"model_type": "llama", **SIZES}},
        {"model_type": "gpt_bigcode", **SIZES},
        {"model_type": "falcon", **SIZES},
        {"model_type": "falcon", **SIZES, "new_decoder_architecture": False, "parallel_attn": False},
    ],
)
def test_changing_kv_heads_changes_w_k_w_v_and_the_cache_and_nothing_else(config: dict[str, Any]) -> None:
    one, two = (_make_card(config).change(n_kv_heads=count) for count in (1, 2))
    assert (one.model.n_kv_heads, two.model.n_kv_heads) == (1, 2)
    assert two.kv_bytes(9) == 2 * one.kv_bytes(9)
    differing = {part for part, count in one.parameters.parts.items() if count != two.parameters.parts[part]}
    assert differing == {"W_K", "W_V"}
    original = _make_card(config)
    assert original.change(n_kv_heads=original.model.n_kv_heads).parameters == original.parameters
