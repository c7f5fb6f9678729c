"""Sites described from their calls, logits from any output, and the notes on a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models import tiny
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput, QuestionAnsweringModelOutput

from headscope.attention.masks import Mask, causal, dense, full, padding, window
from headscope.attention.observer import Call
from headscope.attention.scores import Scores
from headscope.errors import ModelError
from headscope.models.huggingface.attention import AttentionCall
from headscope.models.loading import open_model
from headscope.models.structure.sites import (
    POST_NORM,
    WINDOWED,
    NoInterfaceError,
    _kind,
    _not_run,
    _stacks,
    input_embedding,
    logits_of,
    names_of,
    not_reached,
    notes_on,
    predicts_tokens,
    site_from_call,
    width_of,
)
from headscope.models.structure.tape import Tape
from headscope.models.structure.trace import LeafCall, Trace, TracedCall
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


@given(n_query=st.integers(1, 6), n_key=st.integers(1, 9), ahead=st.integers(0, 3))
def test_a_dense_mask_is_causal_when_no_query_sees_past_its_position(n_query: int, n_key: int, ahead: int) -> None:
    """The last query is at the last key."""
    allowed = torch.zeros(n_query, n_key, dtype=torch.bool)
    for query in range(n_query):
        for key in range(n_key):
            allowed[query, key] = key <= query + n_key - n_query + ahead
    past = any(
        bool(allowed[query, key]) for query in range(n_query) for key in range(n_key) if key > query + n_key - n_query
    )
    found = site_from_call("0", call(dense(allowed), n_query, n_key), None)
    assert found.causal == (n_query > 1 and not past), "one query alone does not show causality"


def test_the_window_is_the_narrowest_one() -> None:
    assert site_from_call("0", call(causal() & window(4) & window(3)), 9).window == 3
    assert site_from_call("0", call(causal()), 9).window == 9
    assert site_from_call("0", call(full()), 9).window is None, "a family's default means nothing without causality"
    assert site_from_call("0", call(causal()), None).window is None


def test_more_keys_than_queries_are_cross_attention_unless_causal() -> None:
    assert site_from_call("0", call(full(), 3, 7), None).kind == "cross"
    assert site_from_call("0", call(causal(), 3, 7), None).kind == "self"
    assert site_from_call("0", call(full()), None).kind == "self"


def test_a_name_that_is_taken_becomes_the_path() -> None:
    model = tiny.llama()
    path = "model.layers.1.self_attn"
    assert names_of(model, [path], {}, {}) == {path: "1"}
    assert names_of(model, [path], {}, {"elsewhere.1": "1"}) == {path: path}
    assert names_of(model, [path], {}, {path: "1"}) == {path: "1"}


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


def test_d_model_comes_from_the_config_or_the_token_embedding() -> None:
    assert (width_of(tiny.llama()), width_of(tiny.gpt2()), width_of(tiny.t5())) == (32, 32, 32)

    class Bare(torch.nn.Module):
        def __init__(self, table: Any) -> None:
            super().__init__()
            self.table = table

        def get_input_embeddings(self) -> Any:
            if self.table is None:
                raise NotImplementedError
            return self.table

    assert width_of(Bare(torch.nn.Embedding(7, 24))) == 24
    assert width_of(Bare(None)) == 0
    assert input_embedding(Bare(None)) is None
    assert input_embedding(torch.nn.Linear(2, 2)) is None
    first = torch.nn.Embedding(5, 2)
    assert input_embedding(torch.nn.Sequential(first, torch.nn.Embedding(7, 2))) is first


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


SEES_ALL = torch.ones(6, 3, dtype=torch.bool)
"""Six queries of a decoder, and the three positions of its encoder."""


@pytest.mark.parametrize(
    ("mask", "n_key", "target", "kind"),
    [
        (full(), 6, 6, "self"),
        (full(), 9, None, "cross"),
        (full(), 9, 6, "cross"),
        (dense(torch.cat((LOWER, SEES_ALL), 1)), 9, 6, "merged"),
        (dense(torch.cat((LOWER, SEES_ALL), 1)), 9, 5, "cross"),
        (dense(torch.cat((LOWER, SEES_ALL), 1)), 9, None, "cross"),
        (dense(torch.cat((LOWER | LOWER.T, SEES_ALL), 1)), 9, 6, "cross"),
        (dense(torch.ones(6, 4, dtype=torch.bool).tril(-3)), 4, 6, "cross"),
    ],
)
def test_merged_attention_is_causal_in_its_own_part(mask: Mask, n_key: int, target: int | None, kind: str) -> None:
    inputs = {} if target is None else {"decoder_input_ids": torch.zeros(2, target, dtype=torch.long)}
    assert _kind(call(mask, 6, n_key), inputs) == kind


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


@pytest.mark.parametrize(
    ("config", "generates", "paths", "stacks"),
    [
        ({}, True, ["layers.0.attn"], []),
        ({}, True, [DECODER], []),
        ({}, True, [DECODER, ENCODER], ["decoder", "encoder"]),
        ({"is_encoder_decoder": True}, True, [DECODER], ["decoder", "encoder"]),
        ({"sub_configs": {"vision_config": 0}}, False, [], ["vision", "audio"]),
        ({"sub_configs": {"vision_config": 0, "text_config": 0}}, True, [], ["vision", "audio"]),
        ({"sub_configs": {"vision_config": 0, "text_config": 0}}, False, [], ["vision", "audio", "text"]),
        ({"sub_configs": {"text_config": 0}}, None, [], ["vision", "audio", "text"]),
        (
            {"sub_configs": {"text_config": 0}, "is_encoder_decoder": True}, False, [],
            ["vision", "audio", "decoder", "encoder"],
        ),
    ],
)  # fmt: skip
def test_stacks_are_told_apart_where_there_are_several(
    config: dict[str, Any], generates: bool | None, paths: list[str], stacks: list[str]
) -> None:
    assert _stacks(Described(SimpleNamespace(**config), generates), paths) == stacks


def test_a_model_that_is_not_reached_says_where_it_attends() -> None:
    kinds = (torch.nn.Linear(1, 1), torch.nn.GELU(), torch.nn.ReLU(), torch.nn.Tanh())
    model = Described(SimpleNamespace(model_type="own"), **{f"part{at}": kind for at, kind in enumerate(kinds)})
    traced = Trace(other_attention={"": "softmax", **{f"part{at}": "softmax" for at in range(4)}})
    said = (
        "own does not call transformers' attention interface, so its heads cannot be observed: it computes attention "
    )
    assert not_reached(model, "a/name", traced) == said + "itself, in GELU, Linear, ReLU (a/name)"
    assert not_reached(Described(), "x", Trace(other_attention={"": "softmax"})) == (
        "Described does not call transformers' attention interface, so its heads cannot be observed: it has no softmax "
        "attention (x)"
    )
    error = NoInterfaceError("a sentence", {"input_ids": LOWER})
    assert (str(error), error.probe["input_ids"] is LOWER) == ("a sentence", True)


def traced_call(path: str) -> TracedCall:
    made = call(full())
    return TracedCall(path, 1, AttentionCall(made, made.v, None), Tape(only_z=True).mark_z(made.v, "0"))


def notes(
    n_given: int = 2, other: dict[str, str] | None = None, names: tuple[str, ...] = ("0",), **more: Any
) -> list[str]:
    traced = Trace(calls=[traced_call("layers.0")], other_attention=other or {})
    outputs = {name: OutputPath("out", "exact", **more) for name in names}
    inputs = {"pixels": torch.ones(1, 1), "input_ids": torch.ones(n_given, 3)}
    return notes_on(Described(), traced, inputs, outputs, dict.fromkeys(names, "layers.0"))


def test_attention_outside_of_the_interface_is_noted_with_its_function() -> None:
    other = {
        "layers.0": "scaled_dot_product_attention", "router": "softmax", "Attend": "softmax", "a.head": "softmax",
        "pool": "scaled_dot_product_attention", "": "multi_head_attention_forward",
    }  # fmt: skip
    said = "attention outside transformers' interface is not observed: Attend (softmax), a.head (softmax), pool "
    said += "(scaled_dot_product_attention), the model itself (multi_head_attention_forward)"
    assert notes(other=other) == [said]
    assert notes(other={**other, "att1": "softmax", "att2": "softmax"}) == [f"{said} and 2 more"]
    assert notes() == notes(other={"router": "softmax"}) == []


@pytest.mark.parametrize(
    ("names", "span"),
    [(("0",), "0"), (tuple("0123"), "0, 1, 2, 3"), (tuple("01234"), "0 … 4 (5 sites)")],
)
def test_notes_say_which_sites_they_are_about(names: tuple[str, ...], span: str) -> None:
    assert notes(n_given=1, names=names) == [WINDOWED.format(sites=span)], "two windows of one input"
    assert notes(names=names, post_norm="norm") == [POST_NORM.format(sites=span)]
    assert notes(names=names, why="a gate") == [f"head parts of {span} are exact: a gate"]
    assert notes(n_given=1, names=names, why="a gate", post_norm="norm") == [
        WINDOWED.format(sites=span), POST_NORM.format(sites=span), f"head parts of {span} are exact: a gate",
    ]  # fmt: skip


def test_towers_that_were_not_run_are_named_without_their_parts() -> None:
    model = tiny.clip()
    leaf = LeafCall("text_model.final_layer_norm", model, torch.ones(1), torch.ones(1))
    found = _not_run(model, Trace(leaves=[leaf]), set())
    assert found == ["vision_model"]
    assert _not_run(model, Trace(leaves=[leaf]), {"vision_model.encoder.layers.0.self_attn"}) == []
    (note,) = notes_on(model, Trace(leaves=[leaf]), {"input_ids": torch.ones(1, 3)}, {}, {})
    assert note == "not run by the inputs it was opened with, so not observed yet: vision_model"
