"""Forward passes of both kinds of model record the residual stream and apply W_O alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.lab.by_hand import by_hand
from tests.models import tiny

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.modes import hooked
from headscope.models.structure.recorder import record_stream

INPUTS = {"input_ids": torch.tensor([[5, 6, 7, 8, 5]])}


@pytest.fixture(params=["transformers", "native"])
def opened(request: pytest.FixtureRequest) -> Any:
    return open_model(tiny.llama() if request.param == "transformers" else by_hand("induction"))


def test_the_stream_is_kept_only_if_it_is_asked_for(opened: Any) -> None:
    assert opened.run(INPUTS).residual is None
    assert opened.run(INPUTS, residual=True).residual is not None


@torch.no_grad()
def test_w_o_applied_to_z_is_what_the_model_made(opened: Any) -> None:
    kept: dict[str, torch.Tensor] = {}

    def keep(site: str, call: Call) -> torch.Tensor:
        kept[site] = plain(call)
        return kept[site]

    made: list[torch.Tensor] = []
    with hooked([opened.output_matrix("1")], after=lambda module, args, kwargs, output: made.append(output)):
        stream = record_stream(opened, INPUTS, keep)
    assert torch.equal(kept["1"].transpose(1, 2), stream.read_by_w_o["1"])
    torch.testing.assert_close(opened.apply_output_weight("1", kept["1"].transpose(1, 2)), made[0])


def test_the_end_tokens_are_those_of_the_generation_config_and_the_tokenizer() -> None:
    model = tiny.llama()
    model.generation_config.eos_token_id = [2, 9]
    opened = open_model(model, tiny.tokenizer())
    assert opened.end_tokens == {2, 9}
    opened.close()
    assert open_model(by_hand("induction")).end_tokens == set()


def test_logits_that_are_not_numbers_are_refused() -> None:
    model = tiny.llama()
    opened = open_model(model)
    hook = model.lm_head.register_forward_hook(lambda module, args, output: output * float("nan"))
    with pytest.raises(ModelError, match="LlamaForCausalLM: its logits are NaN for this input"):
        opened.run(INPUTS)
    hook.remove()
    opened.close()
