"""Each decoding step has the logits of the whole text at once: with a KV cache, without, and under an edit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.lab.by_hand import HandSizes, by_hand
from tests.models import tiny
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.models.decoding import Decoder, generation_inputs
from headscope.models.loading import open_model
from headscope.models.native import NativeModel

PROMPT, NEW = [5, 6, 7, 8], [9, 3, 11]


def unchanged(site: str, call: Call) -> Tensor:
    return plain(call)


def louder(site: str, call: Call) -> Tensor:
    """An edit that is the same at every position, so that it can be applied to one token at a time."""
    z = plain(call).clone()
    z[:, 1] *= 3.0
    return z


def whole(opened: Any, inputs: dict[str, Tensor], observer: Any) -> Tensor:
    with torch.no_grad():
        logits: Tensor = opened.run(inputs, observer).logits[0, -1]
    return logits


@pytest.mark.parametrize("observer", [unchanged, louder])
@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
@pytest.mark.parametrize("cached", [True, False])
def test_a_step_is_the_last_row_of_the_whole_text(build: Any, observer: Any, cached: bool) -> None:
    opened = open_model(build())
    opened.model.config.use_cache = cached
    inputs = dict(generation_inputs(opened, PROMPT, 5))
    decoder = Decoder(opened, inputs, observer)
    assert decoder.keeps_cache == cached
    assert_close(decoder.first(), whole(opened, inputs, observer), atol=1e-5, rtol=1e-4)
    for token in NEW:
        found = decoder.feed(token)
        inputs[decoder.name] = torch.cat((inputs[decoder.name], torch.tensor([[token]])), 1)
        assert_close(found, whole(opened, inputs, observer), atol=1e-5, rtol=1e-4)
    opened.close()


def test_an_edit_is_applied_in_every_step() -> None:
    opened = open_model(tiny.llama())
    plain_steps, louder_steps = (
        Decoder(opened, generation_inputs(opened, PROMPT, 5), each) for each in (unchanged, louder)
    )
    assert not torch.allclose(plain_steps.first(), louder_steps.first(), atol=1e-3)
    assert not torch.allclose(plain_steps.feed(9), louder_steps.feed(9), atol=1e-3)
    opened.close()


def test_a_mask_grows_with_the_text() -> None:
    opened = open_model(tiny.llama())
    mask = torch.tensor([[0, 1, 1, 1]])
    decoder = Decoder(opened, {"input_ids": torch.tensor([PROMPT]), "attention_mask": mask}, unchanged)
    decoder.first()
    found = decoder.feed(9)
    assert decoder.inputs["attention_mask"].tolist() == [[0, 1, 1, 1, 1]]
    longer = {"input_ids": torch.tensor([[*PROMPT, 9]]), "attention_mask": torch.tensor([[0, 1, 1, 1, 1]])}
    assert_close(found, whole(opened, longer, unchanged), atol=1e-5, rtol=1e-4)
    unpadded = whole(opened, {"input_ids": torch.tensor([[*PROMPT, 9]])}, unchanged)
    assert not torch.allclose(found, unpadded, atol=1e-3), "the padding is still masked"
    opened.close()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (0, "n_tokens=0: ask for at least one token"),
        (-3, "n_tokens=-3"),
        (22, "4 tokens and 22 more exceed the 24 that ours can read; ask for at most 21, or shorten the text"),
    ],
)
def test_the_number_of_tokens_is_limited_by_the_context(tokens: int, message: str) -> None:
    opened = NativeModel(by_hand("induction", HandSizes(vocabulary=32, context=24)), None, "ours")
    assert generation_inputs(opened, PROMPT, 21)["input_ids"].tolist() == [PROMPT]
    with pytest.raises(InputError, match=message):
        generation_inputs(opened, PROMPT, tokens)


def test_a_model_without_logits_does_not_generate() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2}
    opened = open_model(tiny.build("LlamaConfig", "LlamaModel", **sizes))
    with pytest.raises(InputError, match="LlamaModel predicts no tokens, so it cannot generate"):
        generation_inputs(opened, PROMPT, 1)
    opened.close()
