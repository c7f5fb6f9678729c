"""Logits are the residual stream through the final norm and W_U, in families that differ there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny
from torch.testing import assert_close

from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.structure.unembedding import (
    CAPPED,
    _after,
)

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
BASE = {**tiny.SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}


def build(name: str) -> Any:
    if name == "t5, tied and divided":
        return tiny.t5(tie_word_embeddings=True)
    if name == "t5, untied":
        return tiny.t5(tie_word_embeddings=False)
    if name == "granite, divided":
        return tiny.build("GraniteConfig", "GraniteForCausalLM", **BASE, logits_scaling=4.0)
    if name == "cohere, multiplied":
        return tiny.build("CohereConfig", "CohereForCausalLM", **BASE, logit_scale=0.25)
    if name == "gpt-neox":
        return tiny.build("GPTNeoXConfig", "GPTNeoXForCausalLM", **tiny.SIZES)
    return {"llama": tiny.llama, "gpt2": tiny.gpt2}[name]()


FAMILIES = (
    "llama", "gpt2", "gpt-neox", "t5, tied and divided", "t5, untied", "granite, divided", "cohere, multiplied",
)  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_the_norm_and_w_u_give_the_models_own_logits(name: str) -> None:
    opened = open_model(build(name))
    inputs = {"input_ids": IDS}
    if "decoder_input_ids" in opened.probe:
        inputs["decoder_input_ids"] = IDS[:, :4]
    with torch.no_grad():
        done = opened.run(inputs, residual=True)
        end = opened.unembedding()
        assert done.residual is not None
        states = done.residual if end.norm is None else end.norm(done.residual)
        logits = states @ end.weight.T + (0 if end.bias is None else end.bias)
    assert_close(logits, done.logits, atol=1e-5, rtol=1e-4)
    opened.close()


def test_notes_name_what_is_folded_into_w_u() -> None:
    for name, note in (
        ("granite, divided", "the model multiplies its logits by 0.25, which is folded into W_U"),
        ("cohere, multiplied", "multiplies its logits by 0.25"),
        ("llama", "the final norm is held at this text's own statistics"),
    ):
        opened = open_model(build(name))
        assert note in opened.unembedding().note
        opened.close()


def test_a_cap_on_the_logits_is_noted() -> None:
    more = {"final_logit_softcapping": 5.0, "head_dim": 8, "query_pre_attn_scalar": 8}
    model = tiny.build("Gemma2Config", "Gemma2ForCausalLM", **BASE, **more)
    opened = open_model(model)
    end = opened.unembedding()
    assert "caps its logits after W_U; attribution is of the logits before the cap" in end.note
    with torch.no_grad():
        done = opened.run({"input_ids": IDS}, residual=True)
        assert end.norm is not None
        before = end.norm(done.residual) @ end.weight.T
    assert_close(5 * torch.tanh(before / 5), done.logits, atol=1e-5, rtol=1e-4)
    opened.close()


def test_a_model_without_an_unembedding_is_rejected() -> None:
    opened = open_model(tiny.build("LlamaConfig", "LlamaModel", **BASE))
    with pytest.raises(ModelError, match=r"this model has no unembedding: .*; a logit cannot be split over its heads"):
        opened.unembedding()
    opened.close()


def test_layers_between_the_residual_stream_and_w_u_are_refused() -> None:
    opened = open_model(tiny.build("BertConfig", "BertForMaskedLM", **tiny.SIZES))
    with pytest.raises(ModelError, match="other layers lie between the residual stream and W_U"):
        opened.unembedding()
    opened.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_a_cap_is_told_from_a_factor_in_half_precision_too(dtype: torch.dtype, size: float) -> None:
    drawn = size * torch.randn(2, 12, 4096, generator=torch.Generator().manual_seed(0))
    logits = drawn.clamp(-4 * size, 4 * size).to(dtype)
    assert _after(logits, (30 * torch.tanh(logits / 30)).to(dtype)) == (1.0, CAPPED)
    for factor in (0.3, 0.0625, 2.5, 1 / 13, 1 / 48**0.5):
        found, note = _after(logits, logits * factor)
        assert found == pytest.approx(factor, rel=1e-3)
        assert "multiplies its logits" in note
