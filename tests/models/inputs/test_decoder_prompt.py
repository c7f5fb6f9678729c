"""What a decoder is fed first, read off one step of ``generate``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn

from headscope.models.inputs.prepare import decoder_prompt

IDS = torch.tensor([[4, 5, 6]])


class Writes(nn.Module):
    """A model that begins to write with a prompt of its own."""

    def __init__(self, prompt: list[int] | None, can: bool = True, error: Exception | None = None) -> None:
        super().__init__()
        self.prompt, self.can, self.error = prompt, can, error
        self.given: list[dict[str, Any]] = []

    def can_generate(self) -> bool:
        return self.can

    def generate(self, **given: Any) -> None:
        assert not torch.is_grad_enabled()
        self.given.append(given)
        self()
        if self.error is not None:
            raise self.error
        if self.prompt is not None:
            self(decoder_input_ids=torch.tensor([[9, 9, 9]]))
            self(decoder_input_ids=torch.tensor([self.prompt, self.prompt]))

    def forward(self, decoder_input_ids: Tensor | None = None) -> None: ...


def test_the_prompt_is_what_generate_fed_last() -> None:
    model = Writes([3, 1, 2])
    assert decoder_prompt(model, {"input_ids": IDS, "decoder_input_ids": IDS}) == [3, 1, 2]
    assert [sorted(given) for given in model.given] == [["do_sample", "input_ids", "max_new_tokens"]]
    assert (model.given[0]["max_new_tokens"], model.given[0]["do_sample"]) == (1, False)


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(2, 2),
        Writes([3], can=False),
        Writes(None),
        Writes([3], error=ValueError("no")),
        Writes([3], error=KeyError("no")),
    ],
    ids=["no generate", "cannot", "fed nothing", "a value", "a lookup"],
)
def test_a_model_that_does_not_generate_has_no_prompt(model: nn.Module) -> None:
    assert decoder_prompt(model, {"input_ids": IDS}) is None
    assert not model._forward_pre_hooks


def test_an_encoder_decoder_begins_with_its_start_token() -> None:
    assert decoder_prompt(tiny.t5(), {"input_ids": IDS}) == [0]
