"""The small GPT: the same function as transformers' Llama, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headscope.errors import ModelError
from headscope.lab.train.gpt import GPT, GPTConfig
from headscope.lab.train.llama_folder import gpt_config, llama_config, load_folder, save_folder
from headscope.lab.train.text_files import train_tokenizer

SMALL = GPTConfig(vocabulary=300, d_model=48, n_layers=2, n_heads=6, n_kv_heads=3, d_mlp=80, context=64)


def loud(config: GPTConfig = SMALL) -> GPT:
    """Weights large enough for attention to matter."""
    model = GPT(config, seed=1).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0 if weight.ndim == 2 else 1.0)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gpt")
    tokenizer = train_tokenizer(["the cat sat on the mat and the dog sat on the cat"], 300)
    save_folder(loud(), tokenizer, made, torch.float32)
    return made


def test_transformers_opens_the_folder_and_gives_the_same_logits(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.randint(0, 300, (2, 50))
    with torch.no_grad():
        torch.testing.assert_close(loud()(tokens), theirs(tokens).logits, atol=1e-4, rtol=1e-4)


def test_transformers_tokenizer_begins_with_the_start_token(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("the cat sat, 1984 ünïcode\n")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id == 0
    assert tokenizer.decode(ids[1:]) == "the cat sat, 1984 ünïcode\n"


def test_a_saved_folder_loads_as_the_same_model(folder: Path) -> None:
    again = load_folder(folder)
    assert again.config == SMALL
    for (name, ours), (_, theirs) in zip(loud().named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_a_model_that_is_not_plain_llama_is_refused() -> None:
    config = llama_config(SMALL, torch.float32)
    with pytest.raises(ModelError, match="this config is not a Llama with tied embeddings"):
        gpt_config(config | {"tie_word_embeddings": False})
    with pytest.raises(ModelError, match="6 heads × 16 is not hidden_size=48"):
        gpt_config(config | {"head_dim": 16})


def test_loss_is_the_cross_entropy_of_each_next_token() -> None:
    model, rows = loud(), torch.randint(0, 300, (2, 9))
    chances = torch.log_softmax(model(rows[:, :-1]), dim=-1)
    expected = -chances.gather(2, rows[:, 1:, None])[..., 0]
    torch.testing.assert_close(model.loss(rows), expected)
