"""Llama folders: what is saved is loaded again, and a complete config."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.errors import ModelError
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.llama_folder import LONGER_CONTEXT, gpt_config, llama_config, load_folder, save_folder
from headscope.lab.train.text_files import train_tokenizer

SMALL = GPTConfig(vocabulary=300, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_mlp=24, context=32)
TOKENIZER = train_tokenizer(["the cat sat"], 260)


def test_a_saved_model_is_loaded_again(tmp_path: Path) -> None:
    model = GPT(SMALL, seed=2)
    save_folder(model, TOKENIZER, tmp_path, torch.float32)
    again = load_folder(tmp_path)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), again.parameters(), strict=True))
    assert not again.training


def test_a_config_of_an_earlier_transformers_reads_too() -> None:
    told = llama_config(SMALL, torch.float32)
    rope = told.pop("rope_parameters")
    assert gpt_config(told | {"rope_theta": rope["rope_theta"]}) == SMALL
    del told["trained_context"]
    assert gpt_config(told | {"rope_theta": 500.0}).context == LONGER_CONTEXT * 32
    assert gpt_config(told | {"rope_theta": 500.0}).rope_base == 500.0


@pytest.mark.parametrize(
    "odd",
    [
        {"model_type": "qwen3"},
        {"attention_bias": True},
        {"mlp_bias": True},
        {"tie_word_embeddings": False},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10_000.0}},
    ],
)
def test_a_model_that_the_gpt_cannot_represent_is_refused(odd: dict[str, object]) -> None:
    with pytest.raises(
        ModelError, match="this config is not a Llama with tied embeddings, no biases and unscaled RoPE"
    ):
        gpt_config(llama_config(SMALL, torch.float32) | odd)
