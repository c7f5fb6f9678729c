"""A model that changes while it is open: looks are of the weights that read them, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headscope
from headscope import ablate
from headscope.errors import InputError, ModelError
from headscope.heads.look.look import Look
from headscope.heads.roles.run import shuffled_weights
from headscope.scope import Scope
from tests.heads.explain.families import FAMILIES, IDS
from tests.models import tiny

TEXT = IDS[0].tolist()
ANEW: dict[str, Callable[[Look], Any]] = {
    "contributions": lambda look: look.contributions(-1).part("1.1"),
    "logit_attribution": lambda look: look.logit_attribution(5),
    "residual": lambda look: look.recorded.value("resid_mid 1"),
    "why": lambda look: look.why("1.1", -1, 3),
    "trace": lambda look: look.trace(5),
}
"""What is computed from the weights when it is asked for."""


@pytest.fixture
def llama() -> Iterator[Scope]:
    with headscope.load(FAMILIES["llama"]()) as scope:
        yield scope


def change(scope: Scope) -> None:
    with torch.no_grad():
        for weight in scope.model.model.parameters():
            weight.mul_(1.3)


@pytest.mark.parametrize("name", ANEW)
def test_what_a_look_has_not_kept_is_refused_once_the_weights_have_changed(name: str, llama: Scope) -> None:
    before, asked = llama.look(TEXT), llama.look(TEXT)
    ANEW[name](asked)
    pattern, logits = before.pattern("1.1"), before.logits
    change(llama)
    for look in (before, asked):
        with pytest.raises(InputError, match="its weights have been changed since this text was read"):
            ANEW[name](look)
    assert torch.equal(before.pattern("1.1"), pattern), "what it has kept is as it was"
    assert torch.equal(before.logits, logits)
    ANEW[name](llama.look(TEXT))


def test_looks_under_edits_and_of_a_batch_are_not_read_on_with_other_weights(llama: Scope) -> None:
    with llama.edit(ablate("0.1")):
        under_edit = llama.look(TEXT)
    (one, _) = llama.look([TEXT[:5], TEXT])
    change(llama)
    with pytest.raises(InputError, match="its weights have been changed"):
        under_edit.contributions(-1)
    with pytest.raises(InputError, match="its weights have been changed"):
        one.contributions(-1)


def test_a_saved_look_is_not_read_on_with_other_weights_either(llama: Scope, tmp_path: Path) -> None:
    llama.look(TEXT).save(tmp_path / "look")
    opened = headscope.open_look(tmp_path / "look", llama)
    change(llama)
    with pytest.raises(InputError, match="its weights have been changed"):
        opened.contributions(-1)


def test_weights_that_were_shuffled_and_put_back_have_not_changed(llama: Scope) -> None:
    look = llama.look(TEXT)
    expected = llama.look(TEXT).contributions(-1).part("1.1")
    with shuffled_weights(llama.model, seed=0):
        pass
    assert torch.equal(look.contributions(-1).part("1.1"), expected)


@pytest.mark.parametrize("part", ["", "transformer.h.1"])
def test_a_model_put_back_into_training_mode_is_refused_until_it_is_in_evaluation_mode(part: str) -> None:
    model = tiny.gpt2(attn_pdrop=0.5, resid_pdrop=0.5, embd_pdrop=0.5)
    with headscope.load(model) as scope:
        expected = scope.look(TEXT).logits
        model.get_submodule(part).train()
        for task in (lambda: scope.look(TEXT), lambda: scope.generate(TEXT, 2), lambda: scope.importance([TEXT])):
            with pytest.raises(ModelError, match=r"is in training mode, where dropout changes every pass; call"):
                task()
        model.eval()
        assert torch.equal(scope.look(TEXT).logits, expected)


@pytest.mark.parametrize("prompt", [TEXT[:1], TEXT[:4]])
def test_a_layer_that_is_called_twice_generates_what_it_reads(prompt: list[int]) -> None:
    model = FAMILIES["llama"]()
    model.model.layers[1] = model.model.layers[0]  # both write to one place of a KV cache
    with headscope.load(model) as scope:
        ids = [token.id for token in scope.generate(prompt, 4).tokens]
        for count, token in enumerate(ids):
            assert int(scope.look(prompt + ids[:count]).logits[-1].argmax()) == token
