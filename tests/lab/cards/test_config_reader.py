"""Reading configs: windows, experts, KV heads, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.lab.cards.card import _make_card
from headscope.lab.cards.config_reader import FAMILIES, LLAMA, MORE_SIZES, Architecture, read_config

BASE = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 96, "vocab_size": 50}
MLA = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 10, "qk_rope_head_dim": 4, "v_head_dim": 12}


def read(model_type: str = "llama", **given: Any) -> Architecture:
    return read_config({"model_type": model_type, **BASE, **given})


@pytest.mark.parametrize(
    ("model_type", "given", "kv"),
    [
        ("falcon", {}, 1),
        ("falcon", {"multi_query": False}, 8),
        ("falcon", {"num_kv_heads": 4}, 1),
        ("falcon", {"num_kv_heads": 4, "new_decoder_architecture": True}, 4),
        ("gpt_bigcode", {}, 1),
        ("gpt_bigcode", {"multi_query": False}, 8),
        ("glm", {}, 2),
        ("glm", {"num_key_value_heads": 8}, 8),
    ],
)
def test_kv_heads_of_families_with_other_keys_or_defaults(model_type: str, given: dict[str, Any], kv: int) -> None:
    assert read(model_type, **given).n_kv_heads == kv


@pytest.mark.parametrize(
    ("model_type", "given", "windows"),
    [
        ("llama", {"sliding_window": 9}, [None] * 6),
        ("mistral", {"sliding_window": 9}, [9] * 6),
        ("mistral", {"sliding_window": None}, [None] * 6),
        ("gemma2", {"sliding_window": 9}, [9, None] * 3),
        ("gpt_oss", {"sliding_window": 9}, [9, None] * 3),
        ("gemma3_text", {"sliding_window": 9}, [9, 9, 9, 9, 9, None]),
        ("gemma3_text", {"sliding_window": 9, "sliding_window_pattern": 3}, [9, 9, None] * 2),
        ("olmo3", {"sliding_window": 9}, [9, 9, 9, None, 9, 9]),
        ("qwen2", {"sliding_window": 9}, [None] * 6),
        ("qwen2", {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 4}, [None] * 4 + [9] * 2),
        ("qwen3", {"sliding_window": 9, "use_sliding_window": True}, [9] * 6),
        ("llama4_text", {"attention_chunk_size": 7, "sliding_window": 9}, [7, 7, 7, None, 7, 7]),
        ("llama4_text", {"sliding_window": 9}, [None] * 6),
        ("gpt_neo", {"attention_layers": ["global", "local"] * 3, "window_size": 5}, [None, 5] * 3),
    ],
)
def test_which_layers_have_a_sliding_window(model_type: str, given: dict[str, Any], windows: list[Any]) -> None:
    assert list(read(model_type, **given).windows) == windows


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({}, []),
        ({"first_k_dense_replace": 2}, [0, 1]),
        ({"decoder_sparse_step": 2}, [0, 2, 4]),
        ({"interleave_moe_layer_step": 3}, [0, 1, 3, 4]),
        ({"mlp_only_layers": [1, 5]}, [1, 5]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1]}, [0, 1, 2, 4]),
        ({"decoder_sparse_step": 2, "first_k_dense_replace": 2}, [0, 1, 2, 4]),
        ({"moe_layers": [1, 3]}, [0, 2, 4, 5]),
        ({"moe_layers": [1, 3, 3, 77]}, [0, 2, 4, 5]),
        ({"moe_layers": []}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_dense_layers_of_a_mixture_of_experts(given: dict[str, Any], plain: list[int]) -> None:
    assert read("qwen3_moe", num_experts=4, num_experts_per_tok=2, **given).dense_layers == len(plain)


@pytest.mark.parametrize("name", ["text_config", "llm_config", "language_config", "thinker_config"])
def test_the_language_model_inside_a_larger_one(name: str) -> None:
    inner = {"model_type": "qwen3", **BASE, "num_key_value_heads": 2}
    model = read_config({"model_type": "sees", "hidden_size": 9999, name: inner, "vision_config": {"n_head": 3}})
    assert (model.model_type, model.d_model, model.n_kv_heads, model.known) == (
        "qwen3",
        64,
        2,
        True,
    )


def test_an_unknown_family_is_read_as_llama_and_marked() -> None:
    assert (read("newest").family, read("newest").known) == (LLAMA, False)
    assert all(read(name).known for name in FAMILIES if name not in ("deepseek_v2", "deepseek_v3"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_key_value_heads": 3}, "8 heads cannot share 3 KV heads evenly; use a divisor of 8"),
        ({"num_key_value_heads": 16}, "8 heads cannot share 16 KV heads evenly"),
        ({"num_attention_heads": 7}, "hidden_size 64 does not divide into 7 heads, and the config gives no head_dim"),
        ({"num_attention_heads": 0}, r"this config \(llama\) names no attention heads"),
        ({"hidden_size": 0}, "gives d_model=0 and n_layers=6"),
        ({"num_hidden_layers": 10_001}, r"num_hidden_layers is 10001 in this config; a whole number from 0 to 10,000 "),
        ({"hidden_size": 64.5}, r"hidden_size is 64\.5 in this config; a whole number"),
        ({"vocab_size": -1}, "vocab_size is -1 in this config"),
        ({**MLA, "v_head_dim": None}, r"needs qk_nope_head_dim, qk_rope_head_dim, v_head_dim too; got \{.*None\}"),
        ({"num_experts": 4, "num_experts_per_tok": 5}, "uses 5 experts per token and has 4; use at most 4"),
    ],
)
def test_impossible_sizes_are_refused_with_their_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**given)


ODD = st.one_of(st.none(), st.integers(-3, 70), st.booleans(), st.lists(st.integers(-2, 9), max_size=9))
ODD_KEYS = sorted({*MORE_SIZES, "moe_layers", "mlp_only_layers", "num_experts", "first_k_dense_replace", "layer_types",
                   "decoder_sparse_step", "head_dim", "max_window_layers", "use_sliding_window", "num_kv_heads"})  # fmt: skip  # noqa: E501


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(st.sampled_from(ODD_KEYS), ODD, max_size=7))
def test_counts_are_positive_and_active_counts_are_at_most_the_total(family: str, odd: dict[str, Any]) -> None:
    try:
        card = _make_card({"model_type": family, **BASE, **odd})
    except InputError:
        return
    parts, active = card.parameters.parts, card.parameters.active
    assert all(count > 0 for count in parts.values())
    assert all(active[part] <= count for part, count in parts.items())
    assert 0 <= card.kv_bytes(10) <= card.kv_bytes(11) <= card.kv_bytes(11, "fp32")
    assert all(work >= 0 for work in card.flops(10).values())
    assert 0 <= card.model.dense_layers <= 6
