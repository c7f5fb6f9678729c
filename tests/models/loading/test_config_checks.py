"""A downloaded config is checked before anything is allocated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.models import tiny

import headscope
from headscope.errors import ModelError
from headscope.models import config_checks
from headscope.models.config_checks import (
    MOST_ADDED_TOKENS,
    MOST_REPEATS,
    WIDEST,
    base_without_head,
    refuse_huge_config,
    refuse_huge_tokenizers,
    refuse_missing_weights,
    refuse_more_weights_than_bytes,
)


class Config:
    """The part of a config that is checked."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def to_dict(self) -> dict[str, Any]:
        return self.values


@pytest.mark.parametrize(
    "name",
    ["num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "num_experts", "num_local_experts", "depth",
     "num_blocks", "num_decoder_layers"],
)  # fmt: skip
def test_too_many_layers_or_experts_are_refused(name: str) -> None:
    refuse_huge_config("it", Config(**{name: MOST_REPEATS}))
    with pytest.raises(ModelError, match=rf"it claims {name}=2,001; no model has that many, so its config is broken"):
        refuse_huge_config("it", Config(**{name: MOST_REPEATS + 1}))


@pytest.mark.parametrize(
    "name", ["head_dim", "qk_rope_head_dim", "d_kv", "d_model", "n_embd", "hidden_size", "intermediate_size",
             "num_attention_heads", "n_head", "num_key_value_heads"],
)  # fmt: skip
def test_too_wide_layers_are_refused(name: str) -> None:
    refuse_huge_config("it", Config(**{name: WIDEST}))
    with pytest.raises(ModelError, match=rf"it claims {name}=1,048,577"):
        refuse_huge_config("it", Config(**{name: WIDEST + 1}))


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("architectures", 5, r"claims architectures=5, which is not a list of names; its config is broken"),
        ("auto_map", 5, r"claims auto_map=5, which is not a dictionary; its config is broken"),
        ("quantization_config", [], r"claims quantization_config=\[\], which is not a dictionary"),
        ("attn_implementation", 5, r"claims attn_implementation=5, which is not a text"),
        ("dtype", "float3", r"claims dtype='float3', which PyTorch does not know"),
        ("vocab_size", 10**30, r"claims vocab_size=1,000,.*; no model has that many, so its config is broken"),
        ("n_inner", -1, r"transformers failed at its config or weights \(Trying to create tensor with negative"),
        ("vocab_size", 0, r"claims vocab_size=0; every model has at least one, so its config is broken"),
        ("n_layer", 0, r"claims n_layer=0; every"),
        ("n_head", -1, r"claims n_head=-1; every"),
        ("n_embd", 0, r"claims n_embd=0; every"),
        ("n_embd", 2.5, r"cannot be opened: Field 'n_embd' expected int, got float \(value: 2.5\)"),
        ("activation_function", "gelu_nope", r"transformers does not know 'gelu_nope'"),
        ("n_positions", 3, r"its weights have other shapes than its config says"),
    ],
)
def test_folder_with_a_broken_config_is_rejected(tmp_path: Path, field: str, value: object, why: str) -> None:
    tiny.gpt2().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(ModelError, match=why):
        headscope.load(tmp_path)


def test_the_weights_must_fit_into_the_files() -> None:
    config = transformers.LlamaConfig(**tiny.SIZES, num_key_value_heads=2)
    claimed = sum(weight.numel() for weight in tiny.llama().parameters())
    refuse_more_weights_than_bytes("it", transformers.LlamaForCausalLM, config, -(-claimed // 8))
    with pytest.raises(
        ModelError,
        match=rf"its config describes {claimed:,} weights, but its files hold only 100 bytes; download it again",
    ):
        refuse_more_weights_than_bytes("it", transformers.LlamaForCausalLM, config, 100)


def test_missing_weights_are_counted_and_some_are_named() -> None:
    refuse_missing_weights("it", [])
    refuse_missing_weights("it", ["pooler.dense.weight", "embeddings.position_ids", "masked_spec_embed"])
    with pytest.raises(
        ModelError, match=r"it lacks 1 of its weights \(layers.0.weight\), which would be random numbers"
    ):
        refuse_missing_weights("it", ["layers.0.weight", "pooler.dense.bias"])
    with pytest.raises(ModelError, match=r"lacks 3 of its weights \(a, b, c\), which"):
        refuse_missing_weights("it", ["c", "b", "a"])
    with pytest.raises(ModelError, match=r"lacks 4 of its weights \(a, b, c, …\)"):
        refuse_missing_weights("it", ["d", "b", "a", "c"])


def header(file: Path, size: int, tensors: int = 0) -> None:
    file.write_bytes(size.to_bytes(8, "little") + b"{" * tensors)


@pytest.mark.parametrize(
    ("name", "entry"),
    [("tokenizer.json", '"content"'), ("tokenizer_config.json", '"content"'), ("added_tokens.json", ":")],
)
def test_the_tokens_that_a_tokenizer_adds_are_bounded(tmp_path: Path, name: str, entry: str) -> None:
    (tmp_path / name).write_text(entry * MOST_ADDED_TOKENS)
    refuse_huge_tokenizers(tmp_path)
    (tmp_path / name).write_text(entry * (MOST_ADDED_TOKENS + 1))
    with pytest.raises(ModelError, match=rf"{name} adds more tokens \(200,001\) than any model has \(200,000\); it is"):
        refuse_huge_tokenizers(tmp_path)


def test_the_size_of_a_tokenizer_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(2**28 + 1)  # takes no space on the disk, and is not read
    with pytest.raises(ModelError, match="has 268,435,457 bytes; no tokenizer has more than 268,435,456"):
        refuse_huge_tokenizers(tmp_path)
    monkeypatch.setattr(config_checks, "MOST_TOKENIZER_BYTES", 10)
    for size in (10, 11):
        (tmp_path / "tokenizer.json").write_bytes(b"x" * size)
        if size == 10:
            refuse_huge_tokenizers(tmp_path)
    with pytest.raises(ModelError, match="has 11 bytes"):
        refuse_huge_tokenizers(tmp_path)


@pytest.mark.parametrize(
    ("kind", "config", "missing", "base"),
    [
        ("BertForMaskedLM", "BertConfig", ["cls.predictions.bias", "bert.pooler.dense.weight"], "BertModel"),
        ("BertForMaskedLM", "BertConfig", ["cls.predictions.bias", "bert.encoder.layer.0.weight"], None),
        ("BertForMaskedLM", "BertConfig", ["pooler.dense.weight"], None),
        ("BertForMaskedLM", "BertConfig", [], None),
        ("BertForMaskedLM", "PreTrainedConfig", ["cls.predictions.bias"], None),
        ("BertModel", "BertConfig", ["encoder.layer.0.weight"], None),
        ("PreTrainedModel", "BertConfig", ["cls.predictions.bias"], None),
        ("FunnelForMaskedLM", "FunnelConfig", ["lm_head.bias"], None),
    ],
)
def test_a_checkpoint_that_lacks_its_head_alone_is_the_model_without_one(
    kind: str, config: str, missing: list[str], base: str | None
) -> None:
    found = base_without_head(getattr(transformers, kind), getattr(transformers, config)(), missing)
    assert found is (None if base is None else getattr(transformers, base))
