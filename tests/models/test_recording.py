"""Forward passes of both kinds of model record W_O and the residual stream alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.lab.by_hand import by_hand
from tests.models import tiny

from headscope.attention.observer import Call, plain
from headscope.errors import HeadNameError, ModelError
from headscope.models.loading import open_model

INPUTS = {"input_ids": torch.tensor([[5, 6, 7, 8, 5]])}


@pytest.fixture(params=["transformers", "native"])
def opened(request: pytest.FixtureRequest) -> Any:
    return open_model(tiny.llama() if request.param == "transformers" else by_hand("induction"))


def test_nothing_is_kept_unless_it_is_asked_for(opened: Any) -> None:
    done = opened.run(INPUTS)
    assert (dict(done.outputs), done.residual) == ({}, None)
    assert set(opened.run(INPUTS, outputs=["1"]).outputs) == {"1"}


@torch.no_grad()
def test_one_row_is_the_same_row_of_the_whole(opened: Any) -> None:
    whole, one = (opened.run(INPUTS, outputs=["0", "1"], residual=True, row=row) for row in (None, 3))
    assert torch.equal(one.residual, whole.residual[:, 3:4])
    for site, output in one.outputs.items():
        assert torch.equal(output.x, whole.outputs[site].x[:, 3:4])
        assert torch.equal(output.output, whole.outputs[site].output[:, 3:4])
        assert output.x.untyped_storage().size() == output.x.numel() * output.x.element_size(), "the rest is not kept"


@torch.no_grad()
def test_w_o_applied_to_z_is_what_was_recorded(opened: Any) -> None:
    kept: dict[str, torch.Tensor] = {}

    def keep(site: str, call: Call) -> torch.Tensor:
        kept[site] = plain(call)
        return kept[site]

    recorded = opened.run(INPUTS, keep, outputs=["1"]).outputs["1"]
    applied = opened.apply_output_weight("1", kept["1"])
    assert torch.equal(applied.x, recorded.x)
    torch.testing.assert_close(applied.output, recorded.output)


def test_a_site_that_the_inputs_do_not_reach_is_named() -> None:
    opened = open_model(tiny.gpt2(add_cross_attention=True))
    assert "0.cross" in opened.shape.sites
    with pytest.raises(ModelError, match=r"^0.cross: not reached by these inputs, so its W_O was not called"):
        opened.run(INPUTS, outputs=["0", "0.cross"])
    opened.close()


def test_the_end_tokens_are_those_of_the_generation_config_and_the_tokenizer() -> None:
    model = tiny.llama()
    model.generation_config.eos_token_id = [2, 9]
    opened = open_model(model, tiny.tokenizer())
    assert opened.end_tokens == {2, 9}
    opened.close()
    assert open_model(by_hand("induction")).end_tokens == set()


def test_a_site_that_cannot_be_split_is_refused_before_the_pass() -> None:
    opened = open_model(tiny.llama())
    ran: list[str] = []

    def see(site: str, call: Call) -> torch.Tensor:
        ran.append(site)
        return plain(call)

    with pytest.raises(HeadNameError, match=r"^9: this model has the sites 0, 1"):
        opened.run(INPUTS, see, outputs=["0", "9"])
    assert ran == []
    opened.close()


def test_logits_that_are_no_numbers_are_refused() -> None:
    model = tiny.llama()
    opened = open_model(model)
    hook = model.lm_head.register_forward_hook(lambda module, args, output: output * float("nan"))
    with pytest.raises(ModelError, match="LlamaForCausalLM: its logits are NaN for this input"):
        opened.run(INPUTS)
    hook.remove()
    opened.close()
