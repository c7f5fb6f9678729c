"""Cards: counts equal what transformers allocates, and bad input is refused with an error that says why."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from headscope.app.pages.cards import shown
from headscope.errors import InputError
from headscope.lab.cards.card import LARGEST_CONFIG, Card, _make_card, built_in, card, from_sizes, notes
from headscope.lab.cards.card_text import _big, render_head_sizes, show, size
from headscope.lab.cards.config_reader import FAMILIES, KEYS, read_config
from headscope.lab.cards.counting import count_parameters, kv_bytes

# What is set beside four layers, so that every switch of a family is met.
OVERRIDES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 8, "attention_bias": True, "mlp_bias": True, "head_dim": 96},
    "qwen3": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "qwen2": {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 2},
    "stablelm": {"use_qkv_bias": True, "num_key_value_heads": 4},
    "glm4_moe": {"head_dim": 128, "use_qk_norm": True, "attention_bias": True},
    "llama4_text": {"interleave_moe_layer_step": 2, "attention_chunk_size": 128},
    "deepseek_v2": {"num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_intermediate_size": 1408},
    "deepseek_v3": {"attention_bias": True},
    "gpt_neo": {"num_layers": 4, "attention_types": [[["global", "local"], 2]]},
    "phi": {"qk_layernorm": True},
    "gpt_neox": {"attention_bias": False},
    "mistral": {"sliding_window": 64},
}
# transformers gives these no cache that can be measured without numbers in it.
NO_CACHE = {"openai-gpt", "biogpt", "mpt", "gpt_neo"}
LENGTH = 200


def meta_model(name: str) -> tuple[Any, Any]:
    import transformers

    given = OVERRIDES.get(name, {})
    layers = {} if name == "gpt_neo" else {"num_hidden_layers": 4}
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        config = transformers.AutoConfig.for_model(name, **layers, **given)
        return config, transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_and_cache_equal_what_transformers_allocates(name: str) -> None:
    from transformers import StaticCache

    config, model = meta_model(name)
    architecture = read_config(config.to_dict())
    assert count_parameters(architecture).total == sum(weight.numel() for weight in model.parameters())
    if name in NO_CACHE:
        return
    cache = StaticCache(config=config, max_cache_len=LENGTH)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(input_ids=torch.zeros(1, 3, dtype=torch.long, device="meta"), past_key_values=cache, use_cache=True)
    allocated = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert kv_bytes(architecture, LENGTH, "bf16") == allocated


def test_families_with_two_builds() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    for name, odd in (
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 1}),
        ("falcon", {"multi_query": False, "parallel_attn": False, "bias": True}),
        ("deepseek_v2", {"q_lora_rank": None}),
        ("gpt_bigcode", {"multi_query": False}),
    ):
        config = AutoConfig.for_model(name, num_hidden_layers=2, **odd)
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = AutoModelForCausalLM.from_config(config)
        count = sum(weight.numel() for weight in model.parameters())
        assert count_parameters(read_config(config.to_dict())).total == count, (name, odd)


def test_what_a_config_leaves_out_is_what_transformers_assumes() -> None:
    from transformers import AutoConfig

    for name in ("gpt2", "gemma2", "glm", "gpt_oss", "cohere2", "starcoder2", "gemma3_text", "opt"):
        config = AutoConfig.for_model(name)
        whole = config.to_dict()
        kept = {key: whole[key] for key in whole if not isinstance(whole[key], bool | list) or key == "multi_query"}
        assert count_parameters(read_config(kept)) == count_parameters(read_config(whole)), name
        assert read_config(kept).windows == read_config(whole).windows, name


def test_totals_of_built_in_cards_agree_with_their_names() -> None:
    checked = 0
    for each in built_in().values():
        said = re.search(
            r"(?<![\d.])(\d+(?:\.\d+)?)\s?([BM])\b", each.title.upper().replace("-A3B", "").replace("-A22B", "")
        )
        if said is None or each.parameters.total is None or "8X" in each.title.upper():
            continue
        nominal = float(said[1]) * {"B": 1e9, "M": 1e6}[said[2]]
        # Names round, and Gemma's, Qwen's and Llama's leave out some or all embeddings.
        assert 0.93 < each.parameters.total / nominal < 1.31, (each.title, each.parameters.total)
        checked += 1
    assert checked >= 50


def test_known_figures() -> None:
    gpt3 = card("gpt3-175b")
    assert (gpt3.model.d_model, gpt3.model.n_heads, gpt3.model.d_head) == (12288, 96, 128)
    phi = card("Phi-4-mini").model
    assert (phi.n_heads, phi.n_kv_heads, phi.d_head, phi.kind) == (24, 8, 128, "GQA")
    assert card("gpt2").heads_in_all == 144
    assert card("gpt2").parameters.total == 124_439_808
    assert card("llama-3.1-8b").kv_bytes(131072) == 16 * 2**30
    assert card("llama-3.1-8b").kv_bytes(131072, "fp8") == 8 * 2**30
    assert card("deepseek-v3").kv_bytes(1) == 61 * (512 + 64) * 2
    assert card("palm-540b").model.n_heads * card("palm-540b").model.d_head == 12288
    assert sum(card("mixtral-8x7b").parameters.active.values()) == pytest.approx(12.9e9, rel=0.01)
    assert card("command-r-plus").parameters.total is None


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 9}
MISTRAL = LLAMA | {"model_type": "mistral", "max_position_embeddings": 1000}


@pytest.mark.parametrize(
    ("config", "said", "unsaid"),
    [
        (LLAMA, "8 × 8 = 64 is shared out", "is not d_model"),
        (LLAMA | {"head_dim": 16}, r"8 × 16 = 128 is not d_model = 64: .* \(8\) would be wrong", "shared out"),
        (LLAMA, "Heads are not experts: all 8", "query heads share"),
        (LLAMA | {"num_key_value_heads": 2}, "4 query heads share each KV head: the cache is 4 times smaller", "MLA"),
        (LLAMA | {"num_key_value_heads": 1}, "8 query heads share each KV head", "layers look back"),
        (
            MISTRAL | {"sliding_window": 250},
            "2 of 2 layers look back at most 250 .* 4.0 times too much at 1,000",
            "MLA",
        ),
        (MISTRAL | {"sliding_window": 999}, "look back at most 999", "no heads at all"),
        (MISTRAL | {"sliding_window": 1000}, "8 × 8", "look back"),
        (
            LLAMA | {"model_type": "new_thing", "intermediate_size": 99},
            "“new_thing” is not a family known to headscope",
            "leaves out the sizes",
        ),
    ],
)
def test_a_note_is_shown_exactly_where_it_holds(config: dict[str, Any], said: str, unsaid: str) -> None:
    text = "\n".join(notes(_make_card(config)))
    assert re.search(said, text), text
    assert unsaid not in text


def test_a_file_a_folder_a_text_and_sizes(tmp_path: Path) -> None:
    config = dict(card("smollm2-135m").config)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for what in (str(tmp_path), str(tmp_path / "config.json"), json.dumps(config), config, tmp_path):
        assert card(what).parameters.total == card("smollm2-135m").parameters.total
    assert card(tmp_path).name == card(tmp_path / "config.json").name == tmp_path.name
    assert card(" SmolLM2-135M ") is card("smollm2-135m")
    names = [_make_card(LLAMA | more).name for more in ({}, {"_name_or_path": "me/mine"}, {"model_type": None})]
    assert names == ["llama", "me/mine", "your model"]
    inner = _make_card({"model_type": "vision_thing", "text_config": config})
    assert inner.model.n_heads == 9
    sizes = from_sizes(768, 12, n_kv_heads=4, n_layers=12, d_ff=3072, vocabulary=50257)
    assert (sizes.model.d_head, sizes.model.kind) == (64, "GQA")
    assert (sizes.model.n_layers, sizes.model.vocabulary, sizes.title) == (
        12,
        50257,
        "12 heads in a width of 768",
    )
    bare = from_sizes(64, 4)
    assert (bare.model.n_layers, bare.model.n_kv_heads, bare.model.d_head) == (1, 4, 16)
    assert from_sizes(64, 4, d_head=32).model.d_head == 32


def test_hybrid_layers_and_encoders() -> None:
    hybrid = _make_card(
        {"model_type": "some_hybrid", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "layer_types": ["linear_attention", "full_attention", "mamba"]}
    )  # fmt: skip
    assert hybrid.model.windows == (0, None, 0)
    assert hybrid.heads_in_all == 4
    assert hybrid.kv_bytes(10) == 2 * 64 * 2 * 10
    assert any("2 layers have no heads at all" in note for note in notes(hybrid))
    bert = _make_card({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12})
    assert any("has no KV cache" in note for note in notes(bert))


MAMBA = {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (MAMBA, r"this config \(mamba\) names no attention heads: a model without attention.*num_attention"),
        ("lama-3-8b", "no card and no file called 'lama-3-8b'; did you mean llama-3"),
        ("zzzz", "Names: gpt2, gpt2-medium"),
        ("{broken", "this text is not JSON; a config.json looks like"),
        ("{}", "names no attention heads"),
        ({"num_attention_heads": 4}, "gives d_model=None and n_layers=None"),
        ({"num_attention_heads": "many"}, "num_attention_heads is 'many' in this config; a whole number"),
        ({"num_attention_heads": 4, "hidden_size": 10, "num_hidden_layers": 1}, "10 does not divide into 4 heads"),
        ({"num_attention_heads": 4, "hidden_size": 8, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_attention_heads": 4, "hidden_size": float("inf"), "num_hidden_layers": 1}, "hidden_size is inf"),
        ({"num_attention_heads": 4, "hidden_size": 8, "num_hidden_layers": 1, "kv_lora_rank": 8}, "MLA. needs qk_"),
        (
            {"model_type": "mistral", "num_attention_heads": 4, "hidden_size": 8, "num_hidden_layers": 1,
             "sliding_window": "wide"},
            "this config has a value that cannot be read",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_a_reason(what: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        card(what)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.text(max_size=9), max_size=4),
)
KEYS_OF_CONFIGS = sorted({key for keys in KEYS.values() for key in keys} | {
    "sliding_window", "layer_types", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "v_head_dim",
    "qk_rope_head_dim", "moe_intermediate_size", "num_experts_per_tok", "n_shared_experts", "first_k_dense_replace",
    "text_config", "mlp_only_layers", "decoder_sparse_step", "expansion_ratio", "architectures", "tie_word_embeddings",
    "moe_layers",
})  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([*FAMILIES, "unknown"]),
    st.dictionaries(st.sampled_from(KEYS_OF_CONFIGS), ANYTHING, max_size=8),
    st.booleans(),
)
def test_any_config_gives_a_card_or_an_input_error(family: str, odd: dict[str, Any], has_heads: bool) -> None:
    base = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 100} if has_heads else {}
    with contextlib.suppress(InputError):
        made = _make_card({"model_type": family, **base, **odd})
        assert shown(made, made, 1000).model_dump_json()


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no config\.json in"):
        card(tmp_path)
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds a list; a config\.json is one object"):
        card(tmp_path / "list.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not text"):
        card(tmp_path / "binary.json")
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(LARGEST_CONFIG + 1)
    with pytest.raises(InputError, match=r"huge\.json has 4,000,001 bytes; a config\.json has a few thousand"):
        card(tmp_path / "huge.json")
    (tmp_path / "just.json").write_text(json.dumps(LLAMA).ljust(LARGEST_CONFIG), encoding="utf-8")
    assert card(tmp_path / "just.json").model.n_heads == 8
    for deep in ("{" + '"a":{' * 100_000, '{"a": ' + "1" * 5000 + "}"):
        with pytest.raises(InputError, match=r"this text is not JSON; a config\.json looks like"):
            card(deep)
    with pytest.raises(InputError, match="dtype='fp3' is not one of fp32"):
        card("gpt2").kv_bytes(1, "fp3")
    with pytest.raises(InputError, match="length=-1: give a number of tokens of at least 0"):
        card("gpt2").kv_bytes(-1)


def test_every_card_serialises_to_json_and_prints_in_a_terminal() -> None:
    for each in built_in().values():
        assert json.loads(shown(each, each).model_dump_json())["name"] == each.name
        assert each.source
    out = Console(file=io.StringIO(), width=100)
    show([card("phi-4-mini")], console=out)
    show([card("gpt2"), card("gpt3-175b")], console=out)
    out.print(render_head_sizes())
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "8  GQA: 3 heads share one" in text
    assert "128 KiB in fp16, 64 KiB in fp8" in text
    assert isinstance(card("gpt2"), Card)
    assert [size(1536), size(2**30), _big(8.03e9), _big(None), _big(12)] == [
        "1.5 KiB",
        "1 GiB",
        "8.03 B",
        "not known",
        "12",
    ]
