"""Sites described from their calls, logits from any output, and the notes on a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput, QuestionAnsweringModelOutput

from headscope.attention.masks import Mask, causal, dense, full, padding, window
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.errors import ModelError
from headscope.models.huggingface.attention import AttentionCall
from headscope.models.loading import open_model
from headscope.models.structure.sites import (
    logits_of,
    notes_on,
    predicts_tokens,
    site_from_call,
)
from headscope.models.structure.tape import Tape
from headscope.models.structure.trace import TracedCall, TracedPass
from headscope.models.structure.weights import OutputPath

LOWER = torch.ones(6, 6, dtype=torch.bool).tril()


def call(mask: Mask, n_query: int = 6, n_key: int = 6) -> Call:
    q, k, v = torch.randn(2, 4, n_query, 8), torch.randn(2, 2, n_key, 8), torch.randn(2, 2, n_key, 5)
    return Call(torch.nn.Module(), q, k, v, Scores(mask=mask))


def test_sizes_are_read_off_the_tensors() -> None:
    site = site_from_call("3", call(causal()), None)
    assert (site.name, site.n_heads, site.n_kv_heads, site.d_head, site.d_value) == ("3", 4, 2, 8, 5)
    assert site.group_size == 2


@pytest.mark.parametrize(
    ("mask", "is_causal"),
    [
        (causal(), True),
        (full(), False),
        (dense(LOWER), True),
        (dense(LOWER | LOWER.T), False),
        (dense(LOWER.clone().fill_diagonal_(False)), True),
        (dense(torch.stack((LOWER, LOWER | torch.eye(6).bool().roll(1, 1)))), False),
        (padding([3, 6]), False),
        (causal() & padding([3, 6]), True),
    ],
)
def test_causality_is_read_off_the_mask(mask: Mask, is_causal: bool) -> None:
    assert site_from_call("0", call(mask), None).causal == is_causal


def test_the_window_is_the_narrowest_one() -> None:
    assert site_from_call("0", call(causal() & window(4) & window(3)), 9).window == 3
    assert site_from_call("0", call(causal()), 9).window == 9
    assert site_from_call("0", call(full()), 9).window is None, "a family's default means nothing without causality"
    assert site_from_call("0", call(causal()), None).window is None


def test_more_keys_than_queries_are_cross_attention_unless_causal() -> None:
    assert site_from_call("0", call(full(), 3, 7), None).kind == "cross"
    assert site_from_call("0", call(causal(), 3, 7), None).kind == "self"
    assert site_from_call("0", call(full()), None).kind == "self"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (CausalLMOutput(logits=torch.full((2, 3, 4), 1.0)), (2, 3, 4)),
        (BaseModelOutput(last_hidden_state=torch.ones(2, 3, 4)), (2, 3, 4)),
        (QuestionAnsweringModelOutput(start_logits=torch.ones(2, 5), end_logits=torch.zeros(2, 5)), (2, 1, 5)),
        (CausalLMOutput(logits=torch.ones(2, 7)), (2, 1, 7)),
        (CausalLMOutput(logits=torch.ones(2, 3, 4, 5)), (2, 20, 3)),
        ((torch.ones(2, dtype=torch.long), torch.ones(2, 3, 4)), (2, 3, 4)),
        ({"scores": torch.ones(2, 6)}, (2, 1, 6)),
        (torch.ones(2, 3, 4), (2, 3, 4)),
        (torch.tensor(1.5), (1, 1, 1)),
    ],
)
def test_logits_have_three_axes_whatever_the_model_returns(output: Any, expected: tuple[int, ...]) -> None:
    found = logits_of(output)
    assert tuple(found.shape) == expected


def test_logits_come_before_hidden_states() -> None:
    both = CausalLMOutput(loss=torch.tensor(9.0), logits=torch.ones(1, 2, 3), hidden_states=(torch.zeros(1, 2, 8),))
    assert torch.equal(logits_of(both), both.logits)


def test_rows_and_columns_of_an_output_map_are_flattened_in_order() -> None:
    maps = torch.arange(24.0).view(1, 3, 2, 4)
    found = logits_of(CausalLMOutput(logits=maps))
    for row in range(2):
        for column in range(4):
            assert torch.equal(found[0, 4 * row + column], maps[0, :, row, column])


@pytest.mark.parametrize("output", [{"ids": torch.ones(2, dtype=torch.long)}, "yes", None, ()])
def test_an_output_without_numbers_is_refused(output: Any) -> None:
    with pytest.raises(ModelError, match=f"the model returned {type(output).__name__}, which has neither"):
        logits_of(output)


def test_which_outputs_predict_tokens() -> None:
    assert predicts_tokens(CausalLMOutput(logits=torch.ones(1, 2, 3)))
    assert not predicts_tokens(CausalLMOutput(logits=torch.ones(1, 2)))
    assert not predicts_tokens(BaseModelOutput(last_hidden_state=torch.ones(1, 2, 3)))


def test_sites_of_the_vision_and_text_towers_are_named_after_them() -> None:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48}
    text = {**sizes, "vocab_size": 97, "projection_dim": 16, "max_position_embeddings": 16, "eos_token_id": 2}
    vision = {**sizes, "image_size": 16, "patch_size": 8, "projection_dim": 16}
    model = tiny.build("CLIPConfig", "CLIPModel", text_config=text, vision_config=vision, projection_dim=16)
    opened = open_model(model)
    assert set(opened.shape.sites) == {"text.0", "vision.0"}
    assert {name: site.causal for name, site in opened.shape.sites.items()} == {"text.0": True, "vision.0": False}
    opened.close()


def test_an_encoder_decoder_is_described_without_notes() -> None:
    model = tiny.t5()
    opened = open_model(model)
    assert not [note for note in opened.notes if "not run" in note]
    kinds = {name: site.kind for name, site in opened.shape.sites.items()}
    assert kinds == {f"decoder.{n}": "self" for n in (0, 1)} | {f"decoder.{n}.cross": "cross" for n in (0, 1)} | {
        f"encoder.{n}": "self" for n in (0, 1)
    }
    assert [site.causal for site in opened.shape.sites.values()].count(True) == 2
    opened.close()


class Described(torch.nn.Module):
    """A model that is only its config."""

    def __init__(self, config: Any = None, generates: bool | None = None, **parts: torch.nn.Module) -> None:
        super().__init__()
        self.config = config
        if generates is not None:
            self.can_generate = lambda: generates
        for name, part in parts.items():
            self.add_module(name, part)


DECODER, ENCODER = "decoder.layers.0.attn", "encoder.layers.0.attn"


def traced_call(path: str) -> TracedCall:
    made = call(full())
    return TracedCall(path, 1, AttentionCall(made, made.v, None), Tape(only_z=True).mark_z(made.v, "0"))


def notes(
    n_given: int = 2, other: dict[str, str] | None = None, names: tuple[str, ...] = ("0",), **more: Any
) -> list[str]:
    traced = TracedPass(calls=[traced_call("layers.0")], other_attention=other or {})
    outputs = {name: OutputPath("out", "exact", **more) for name in names}
    inputs = {"pixels": torch.ones(1, 1), "input_ids": torch.ones(n_given, 3)}
    return notes_on(Described(), traced, inputs, outputs, dict.fromkeys(names, "layers.0"))
