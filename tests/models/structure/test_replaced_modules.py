"""A pass through a model whose modules were replaced since it was opened is refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.lab.by_hand import by_hand
from tests.models import tiny
from tests.models.any_torch.modules import Attention
from torch import nn

import headscope
from headscope.errors import ModelError

IDS = torch.tensor([5, 6, 7, 8, 5])

REPLACED: dict[str, Callable[[Any], str]] = {
    "self_attn": lambda llama: _copied(llama, "model.layers.0.self_attn"),
    "layer": lambda llama: _copied(llama, "model.layers.1"),
    "W_O": lambda llama: _copied(llama, "model.layers.1.self_attn.o_proj"),
    "W_U": lambda llama: _copied(llama, "lm_head"),
}


def _copied(model: nn.Module, path: str) -> str:
    model.set_submodule(path, copy.deepcopy(model.get_submodule(path)))
    return path


@pytest.mark.parametrize("what", REPLACED)
def test_a_replaced_module_of_a_transformers_model_is_rejected(what: str) -> None:
    model = tiny.llama()
    with headscope.load(model) as scope:
        scope.look(IDS)
        path = REPLACED[what](model)
        with pytest.raises(ModelError, match=rf"^{path} \(.*\) was replaced after .*; open the model again: load"):
            scope.look(IDS)
        with pytest.raises(ModelError, match=f"^{path} "), scope.edit(headscope.ablate("0.1")):
            scope.generate(IDS, 2)
    with headscope.load(model) as again:
        assert again.look(IDS).sites == ("0", "1")


def test_a_replaced_module_built_on_multi_head_attention_is_rejected() -> None:
    model = by_hand("induction")
    with headscope.load(model) as scope:
        path = next(name for name, part in model.named_modules() if isinstance(part, headscope.MultiHeadAttention))
        _copied(model, path)
        with pytest.raises(ModelError, match=rf"^{path} \(MultiHeadAttention\) was replaced"):
            scope.look(IDS)


def test_a_replaced_module_of_any_other_kind_is_rejected() -> None:
    model = nn.Sequential(Attention(), Attention())
    x = torch.randn(1, 6, 32, generator=torch.Generator().manual_seed(0))
    with headscope.load(model, inputs=x) as scope:
        _copied(model, "1")
        with pytest.raises(ModelError, match=r"^1 \(Attention\) was replaced"):
            scope.look(x)


def test_attention_that_was_added_is_rejected() -> None:
    model = tiny.llama()
    with headscope.load(model) as scope:
        model.model.layers.append(copy.deepcopy(model.model.layers[1]))
        model.config.num_hidden_layers = model.model.config.num_hidden_layers = 3
        with pytest.raises(ModelError, match=r"^model\.layers\.2\.self_attn \(LlamaAttention\) attends, but was not"):
            scope.look(IDS)


def test_another_model_may_run_inside_a_pass() -> None:
    """What an edit asks of a second opened model is none of the first one's sites, and no part of it."""
    with headscope.load(tiny.llama()) as scope, headscope.load(tiny.llama()) as other:

        def ask(site: str, call: Any, z: torch.Tensor) -> torch.Tensor:
            other.model.model(IDS[None])
            return z

        with scope.edit(ask):
            edited = scope.look(IDS)
        torch.testing.assert_close(edited.logits, scope.look(IDS).logits)


def test_an_opened_model_can_be_copied() -> None:
    """A copy holds the model's weights alone: not what has it open, with the passes that were recorded."""
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 97}
    for model in (tiny.llama(), tiny.build("GPTJConfig", "GPTJForCausalLM", **sizes)):
        with headscope.load(model) as scope:
            copied = copy.deepcopy(scope.hf_model)
            hooks = [hook for part in copied.modules() for hook in part._forward_pre_hooks.values()]
            assert hooks
            assert not any(hasattr(hook, "__self__") for hook in hooks)
        torch.testing.assert_close(dict(copied.named_parameters()), dict(model.named_parameters()))
