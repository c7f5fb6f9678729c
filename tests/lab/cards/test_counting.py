"""Parameters, KV cache and FLOPs of small models against sums written out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.lab.cards.card import Card, _make_card, built_in, card
from headscope.lab.cards.config_reader import read_config
from headscope.lab.cards.counting import BYTES, Parameters, count_parameters, kept_per_token, kv_bytes, next_token_flops

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


def test_a_bias_has_one_parameter_per_output() -> None:
    plain, biased = counted("llama").parts, counted("llama", attention_bias=True, mlp_bias=True).parts
    added = {part: biased[part] - plain[part] for part in plain}
    assert added == {"token embeddings": 0, "W_Q": 18, "W_K": 18, "W_V": 18, "W_O": 18, "norms": 0, "unembedding": 0,
                     "FFN": 3 * (10 + 10 + 6)}  # fmt: skip


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


def test_heads_wider_than_their_share_make_the_matrices_wider() -> None:
    parts = counted("llama", head_dim=8, num_key_value_heads=1).parts
    assert (parts["W_Q"], parts["W_K"], parts["W_O"]) == (3 * 6 * 16, 3 * 6 * 8, 3 * 16 * 6)


@pytest.mark.parametrize(
    ("family", "given", "other"),
    [
        ("qwen3", {}, 2 * 3),
        ("olmo2", {"num_key_value_heads": 1}, (2 + 1) * 3),
        ("phi", {}, 0),
        ("phi", {"qk_layernorm": True}, 4 * 3),
        ("gpt_oss", {}, 2),
        ("diffllama", {}, 4 * 3),
    ],
)
def test_other_attention_parameters(family: str, given: dict[str, Any], other: int) -> None:
    parts = counted(family, **given).parts
    assert parts.get("attention, other", 0) == 3 * other


def test_a_latent_layer_compresses_and_expands() -> None:
    sizes = {"kv_lora_rank": 5, "q_lora_rank": 4, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 7}
    parts = counted("deepseek_v3", **sizes).parts
    assert parts["W_Q"] == 3 * (6 * 4 + 4 + 4 * 2 * 5)
    assert parts["W_K and W_V, down"] == 3 * (6 * (5 + 2) + 5)
    assert parts["W_K and W_V, up"] == 3 * 5 * 2 * (3 + 7)
    assert parts["W_O"] == 3 * 2 * 7 * 6
    straight = counted("deepseek_v3", **(sizes | {"q_lora_rank": None})).parts
    assert straight["W_Q"] == 3 * 6 * 2 * 5


def test_experts_routers_and_shared_experts() -> None:
    given = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "mlp_only_layers": [0]}
    found = counted("qwen2_moe", shared_expert_intermediate_size=8, **given)
    assert found.parts["FFN"] == 1 * 3 * 6 * 10
    assert found.parts["experts"] == 2 * 4 * 3 * 6 * 5
    assert found.parts["shared experts"] == 2 * (3 * 6 * 8 + 6)
    assert found.parts["router"] == 2 * 4 * 6
    assert found.active["experts"] == 2 * 2 * 3 * 6 * 5
    assert {part for part in found.parts if found.parts[part] != found.active[part]} == {"experts"}


def test_routers_and_experts_with_biases() -> None:
    parts = counted("gpt_oss", num_local_experts=4, num_experts_per_tok=1).parts
    assert parts["router"] == 3 * 4 * (6 + 1)
    assert parts["experts"] == 3 * 4 * (3 * 6 * 10 + 2 * 10 + 6)


@pytest.mark.parametrize(
    ("family", "norms"),
    [
        ("llama", 2 * 3 + 1),
        ("gemma2", 4 * 3 + 1),
        ("gptj", 2 * (1 * 3 + 1)),
        ("bloom", 2 * (2 * 3 + 1 + 1)),
        ("openai-gpt", 2 * 2 * 3),
        ("cohere", 1 * 3 + 1),
    ],
)
def test_norms_in_widths(family: str, norms: int) -> None:
    assert counted(family).parts["norms"] == norms * 6


def test_no_norm_is_no_part() -> None:
    assert "norms" not in counted("olmo").parts


def test_missing_sizes_are_named_and_the_total_is_unknown() -> None:
    silent = {key: size for key, size in SIZES.items() if key not in ("vocab_size", "intermediate_size")}
    found = count_parameters(read_config({"model_type": "llama", **silent, "layer_types": ["mamba", *["attention"] * 2]}))  # fmt: skip  # noqa: E501
    assert found.unknown == ("embeddings", "1 layers without attention heads", "FFN")
    assert found.total is None
    assert found.parts == {"W_Q": 2 * 36, "W_K": 2 * 36, "W_V": 2 * 36, "W_O": 2 * 36, "norms": 7 * 6}
    assert counted("llama").total == sum(counted("llama").parts.values())


def test_attention_counts_its_matrices_and_its_other_parameters() -> None:
    found = counted("qwen3")
    assert found.attention == sum(found.parts[part] for part in ("W_Q", "W_K", "W_V", "W_O", "attention, other"))
    latent = card("deepseek-v3").parameters
    assert latent.attention == sum(count for part, count in latent.parts.items() if part.startswith("W_"))
    assert len([part for part in latent.parts if part.startswith("W_")]) == 4


@pytest.mark.parametrize(("dtype", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2), ("fp8", 1), ("int8", 1)])
def test_the_cache_holds_a_key_and_a_value_per_kv_head_layer_and_token(dtype: str, width: int) -> None:
    model = a_card("llama", num_key_value_heads=1, head_dim=5).model
    assert kv_bytes(model, 11, dtype) == 11 * 3 * 1 * (5 + 5) * width
    assert BYTES[dtype] == width


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


def test_flops_are_two_per_active_weight() -> None:
    model = a_card("qwen2_moe", num_experts=4, num_experts_per_tok=1, moe_intermediate_size=5).model
    parameters = count_parameters(model)
    work = next_token_flops(model, parameters, 0)
    assert work["Q, K, V, O"] == 2 * parameters.attention
    assert work["FFN"] == 2 * (3 * 1 * 3 * 6 * 5 + 3 * 4 * 6)
    assert work["output"] == 2 * 7 * 6
    assert work["looking back"] == 3 * 2 * 2 * (3 + 3)


def test_tied_embeddings_count_in_the_output_flops() -> None:
    assert a_card("gpt2").flops(5)["output"] == a_card("gpt2", tie_word_embeddings=False).flops(5)["output"] == 84


def test_mla_caches_one_latent_vector_or_expanded_every_key_and_value() -> None:
    deepseek = card("deepseek-v3")
    assert kept_per_token(deepseek.model) == 512 + 64
    assert kept_per_token(deepseek.model, expanded=True) == 128 * (192 + 128)
    assert deepseek.kv_bytes(3, "fp8", expanded=True) == 3 * 61 * 128 * 320
    assert card("gpt2").kv_bytes(3, expanded=True) == card("gpt2").kv_bytes(3)


@pytest.mark.parametrize("name", sorted(built_in()))
def test_changing_a_card_to_its_own_sizes_changes_nothing(name: str) -> None:
    each = card(name)
    same = each.change(n_heads=each.model.n_heads)
    assert same.parameters == each.parameters
    assert same.model.windows == each.model.windows
    if each.model.latent is None:
        every = [count for count in range(each.model.n_heads, 0, -1) if each.model.n_heads % count == 0]
        choices = each.kv_choices(100)
        assert [choice["n_kv_heads"] for choice in choices] == every
        sizes = [choice["kv_bytes"] * every[0] // choice["n_kv_heads"] for choice in choices]
        assert sizes == [choices[0]["kv_bytes"]] * len(sizes)


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
