"""A downloaded config is checked before anything is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.models import tiny

from headscope.errors import ModelError
from headscope.models.config_checks import (
    MOST_REPEATS,
    WIDEST,
    refuse_huge_config,
    refuse_missing_weights,
    refuse_more_weights_than_bytes,
    weight_bytes,
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


def test_sub_configs_are_checked_and_other_numbers_are_not() -> None:
    with pytest.raises(ModelError, match="claims num_hidden_layers=1,000,000,000"):
        refuse_huge_config("it", Config(text_config={"inner": {"num_hidden_layers": 10**9}}))
    refuse_huge_config(
        "it", Config(vocab_size=10**9, rope_theta=1e12, max_position_embeddings=10**8, name="depth", depth=None)
    )


def test_the_weights_must_fit_into_the_files() -> None:
    config = transformers.LlamaConfig(**tiny.SIZES, num_key_value_heads=2)
    claimed = sum(weight.numel() for weight in tiny.llama().parameters())
    refuse_more_weights_than_bytes("it", transformers.LlamaForCausalLM, config, -(-claimed // 8))
    with pytest.raises(
        ModelError, match=rf"it claims {claimed:,} weights, and its files have 100 bytes; fetch it again"
    ):
        refuse_more_weights_than_bytes("it", transformers.LlamaForCausalLM, config, 100)


def test_a_config_that_cannot_be_built_is_left_to_loading() -> None:
    def broken(config: Any) -> Any:
        raise RuntimeError("not this way")

    refuse_more_weights_than_bytes("it", broken, None, 0)


def test_only_weight_files_are_counted(tmp_path: Path) -> None:
    for name, size in (("a.safetensors", 5), ("b.safetensors", 7), ("config.json", 100), ("m.gguf", 11)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert weight_bytes(tmp_path) == 12
    assert weight_bytes(tmp_path, "m.gguf") == 11


def test_missing_weights_are_counted_and_some_are_named() -> None:
    refuse_missing_weights("it", [])
    refuse_missing_weights("it", ["pooler.dense.weight", "embeddings.position_ids", "masked_spec_embed"])
    with pytest.raises(
        ModelError, match=r"it lacks 1 of its weights \(layers.0.weight\), which would be random numbers"
    ):
        refuse_missing_weights("it", ["layers.0.weight", "pooler.dense.bias"])
    with pytest.raises(ModelError, match=r"lacks 4 of its weights \(a, b, c, …\)"):
        refuse_missing_weights("it", ["d", "b", "a", "c"])
