"""Small transformers models with random weights, opened as any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import transformers

import headscope
from headscope.scope import Scope


def small_llama() -> transformers.PreTrainedModel:
    """Three layers, six heads that share three KV heads; weights large enough for attention to matter."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=256, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.25)
    return model


def small_gpt2() -> transformers.PreTrainedModel:
    """LayerNorm, biases, Conv1D and learned positions."""
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=89, n_embd=40, n_layer=2, n_head=4, n_positions=128)
    model = transformers.GPT2LMHeadModel(config).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("ln_f.weight") else 0.0, std=0.2)
    return model


@pytest.fixture(params=[small_llama, small_gpt2], ids=["llama", "gpt2"])
def scope(request: pytest.FixtureRequest) -> Iterator[Scope]:
    with headscope.load(request.param()) as opened:
        yield opened


@pytest.fixture
def llama() -> Iterator[Scope]:
    with headscope.load(small_llama()) as opened:
        yield opened


@pytest.fixture
def ids() -> list[int]:
    return torch.randint(3, 80, (23,), generator=torch.Generator().manual_seed(5)).tolist()


@contextmanager
def counting_forwards(scope: Scope) -> Iterator[list[int]]:
    """One entry for each time the model itself runs, whoever runs it."""
    ran: list[int] = []
    hook = scope.model.model.register_forward_pre_hook(lambda *_: ran.append(1))
    try:
        yield ran
    finally:
        hook.remove()
