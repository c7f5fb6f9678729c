"""A small model that reads words, behind a session and behind the real application."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import tokenizers
import torch
import transformers
from fastapi.testclient import TestClient

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import HOST, application

SENTENCE = "the old lamp on landing burned until morning and stairs below it were as bright river . ,"
WORDS = tuple(SENTENCE.split())


def word_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token a word."""
    vocabulary = {word: index for index, word in enumerate(["[UNK]", *WORDS])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")


def small_model(layers: int = 2) -> transformers.PreTrainedModel:
    """Six heads a layer that share three KV heads; weights large enough for attention to matter."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + 1, hidden_size=48, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=1280,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.25)
    return model


@contextmanager
def held(layer: torch.nn.Module) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Stop the model before this layer. The first event says that it stands there, the second lets it go on."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        reached.set()
        go_on.wait()

    hook = layer.register_forward_pre_hook(wait)
    try:
        yield reached, go_on
    finally:
        go_on.set()
        hook.remove()


@pytest.fixture(scope="session")
def scope() -> Iterator[headscope.scope.Scope]:
    with headscope.load(small_model(), word_tokenizer()) as opened:
        yield opened


@pytest.fixture
def session(scope: headscope.scope.Scope) -> Session:
    return Session(scope)


@pytest.fixture
def client(session: Session) -> Iterator[TestClient]:
    with TestClient(application(ModelRegistry(session)), base_url=f"http://{HOST}") as opened:
        yield opened
