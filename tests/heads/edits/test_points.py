"""Steering, hidden keys and the logit lens against hooks written by hand, in models of all three kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.heads.blocks import Blocks
from tests.heads.explain.families import FAMILIES, IDS, ROPE, inputs_of
from tests.models import tiny
from tests.models.test_native import Small
from torch import Tensor, nn

import headscope
from headscope import hide, knock_out, steer
from headscope.errors import EditError, InputError, ModelError
from headscope.models.structure.points import Point
from headscope.models.structure.readers import probed

MORE: dict[str, Callable[[], Any]] = {
    "gemma2": lambda: tiny.build("Gemma2Config", "Gemma2ForCausalLM", **ROPE, sliding_window=8),
    "olmo2": lambda: tiny.build("Olmo2Config", "Olmo2ForCausalLM", **ROPE),
    "cohere": lambda: tiny.build("CohereConfig", "CohereForCausalLM", **ROPE),
    "granite": lambda: tiny.build("GraniteConfig", "GraniteForCausalLM", **ROPE, residual_multiplier=0.3),
    "gptj": lambda: tiny.build(
        "GPTJConfig", "GPTJForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=97
    ),
}
BUILD = {**FAMILIES, **MORE}


def layer_path(opened: Any) -> tuple[str, str]:
    """The last layer, its label and its path."""
    path, label = list(probed(opened).layers.items())[-1]
    return label, path


@pytest.mark.parametrize("family", BUILD)
@pytest.mark.parametrize("kind", ["resid_pre", "resid_post"])
def test_steering_equals_a_hook_written_by_hand(family: str, kind: str) -> None:
    with headscope.load(BUILD[family]()) as scope:
        text, vector = inputs_of(family), torch.randn(scope.shape.d_model, generator=torch.Generator().manual_seed(1))
        label, path = layer_path(scope.model)
        layer = scope.model.model.get_submodule(path)

        def added(value: Any) -> Any:
            return value + vector if isinstance(value, Tensor) else (value[0] + vector, *value[1:])

        if kind == "resid_pre":
            hook = layer.register_forward_pre_hook(
                lambda module, args, kwargs: (
                    (added(args), kwargs)
                    if args
                    else (args, {**kwargs, "hidden_states": kwargs["hidden_states"] + vector})
                ),
                with_kwargs=True,
            )
        else:
            hook = layer.register_forward_hook(lambda module, args, output: added(output))
        wanted = scope.look(text).logits
        hook.remove()
        with scope.edit(steer(f"{kind} {label}", vector)):
            torch.testing.assert_close(scope.look(text).logits, wanted, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(scope.look(text).logits, wanted, atol=1e-3)


@pytest.mark.parametrize("kind", ["attn_out", "mlp_out"])
def test_what_layers_return_is_steered_at_some_positions(kind: str) -> None:
    with headscope.load(FAMILIES["llama"]()) as scope:
        ids, vector = IDS[0].tolist(), torch.randn(scope.shape.d_model, generator=torch.Generator().manual_seed(1))
        layer = scope.model.model.model.layers[1]
        module = layer.self_attn.o_proj if kind == "attn_out" else layer.mlp

        def put(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            output = output.clone()
            output[:, [2, 5]] += vector
            return output

        hook = module.register_forward_hook(put)
        wanted = scope.look(ids).logits
        hook.remove()
        with scope.edit(steer(Point(kind, "1"), vector, positions=[2, 5])):
            torch.testing.assert_close(scope.look(ids).logits, wanted)
            made = scope.generate(ids, 4)
            text = ids + [token.id for token in made.tokens]
            assert [int(row.argmax()) for row in scope.look(text).logits[len(ids) - 1 : -1]] == text[len(ids) :]


def test_points_that_are_not_there_are_rejected() -> None:
    with headscope.load(FAMILIES["llama"]()) as scope:
        vector = torch.zeros(scope.shape.d_model)
        for name, message in {
            "resid_in 1": r"'resid_in 1' is not a point; write one of resid_pre, resid_post, attn_out, mlp_out, z",
            "mlp_out": "'mlp_out' is not a point",
        }.items():
            with pytest.raises(EditError, match=message):
                steer(name, vector)
        for name in ("resid_mid 1", "mlp_in 1", "z 1", "k_input 1.0", "scores 1.0"):
            with pytest.raises(EditError, match=f"'{name}' can be read, but no module returns it"):
                steer(name, vector).bind(scope.model)
        with pytest.raises(EditError, match=r"'mlp_out 7': this model has no such layer or site; it has 0, 1"):
            steer("mlp_out 7", vector).bind(scope.model)
        with pytest.raises(EditError, match=r"shape \(3,\); this model's d_model is"):
            steer("mlp_out 1", torch.zeros(3)).bind(scope.model)
        past = r"steer\(\) at positions \[40\]: this text has the positions 0–11"
        with scope.edit(steer("mlp_out 1", vector, positions=40)), pytest.raises(EditError, match=past):
            scope.look(IDS[0].tolist())


@pytest.mark.parametrize("family", [name for name in BUILD if name != "t5"])
@pytest.mark.parametrize("queries", ["outside", "all"])
def test_hidden_keys_get_no_weight_at_any_site(family: str, queries: Any) -> None:
    with headscope.load(BUILD[family]()) as scope:
        ids = IDS[0].tolist()
        whole = scope.look(ids)
        with scope.edit(hide([2, 3], queries=queries)):
            look = scope.look(ids)
            outside = [row for row in range(len(ids)) if queries == "all" or row not in (2, 3)]
            for site in look.sites:
                pattern = look.patterns(site)
                assert float(pattern[:, outside][:, :, 2:4].abs().max()) == 0.0
                shown = pattern.sum(-1)[:, outside]
                torch.testing.assert_close(shown, torch.ones_like(shown))
        assert not torch.allclose(look.logits, whole.logits, atol=1e-5)


def test_a_layer_that_is_only_its_attention_has_no_stream_at_its_ends() -> None:
    with headscope.load(Small(tied=False)) as scope, pytest.raises(EditError, match="this layer is only its attention"):
        steer("resid_pre 0", torch.zeros(16)).bind(scope.model)


def test_keys_hidden_from_one_query_are_knocked_out() -> None:
    with headscope.load(FAMILIES["llama"]()) as scope:
        ids = IDS[0].tolist()
        rows = [row for row in range(len(ids)) if row not in (2, 3)]
        with scope.edit(*(knock_out("1.1", row, key) for row in rows for key in (2, 3))):
            wanted = scope.look(ids)
        with scope.edit(hide(range(2, 4), heads=["1.1"])):
            found = scope.look(ids)
            made = scope.generate(ids, 3)
            again = scope.look(ids + [token.id for token in made.tokens]).logits
        torch.testing.assert_close(found.logits, wanted.logits)
        torch.testing.assert_close(found.pattern("1.1"), wanted.pattern("1.1"))
        assert [int(row.argmax()) for row in again[len(ids) - 1 : -1]] == [token.id for token in made.tokens]


def test_a_span_is_found_where_it_stands_once() -> None:
    with headscope.load() as scope:
        look = scope.look("When Mary and John went to the store, John gave a drink to")
        span = look.span("Mary and John")
        assert "".join(look.tokens[i].text for i in span).strip() == "Mary and John"
        with pytest.raises(InputError, match="' John' occurs 2 times in this text"):
            look.span(" John")
        with pytest.raises(EditError, match="give at least one position"):
            hide(range(0))
        with scope.edit(hide(range(90, 95))), pytest.raises(EditError, match=r"at position 94: this text has the keys"):
            scope.look("Mary went")


def test_hiding_in_a_model_of_two_texts_takes_heads() -> None:
    with headscope.load(FAMILIES["t5"]()) as scope:
        with pytest.raises(EditError, match="reads more than one sequence"), scope.edit(hide([2])):
            pass
        with scope.edit(hide([2], heads=["encoder.1.0"])):
            assert float(scope.look(inputs_of("t5")).pattern("encoder.1.0")[3:, 2].max()) == 0.0


@pytest.mark.parametrize("family", BUILD)
def test_the_lens_at_the_end_equals_the_logits(family: str) -> None:
    with headscope.load(BUILD[family]()) as scope:
        look = scope.look(inputs_of(family))
        if scope.model.unembedding_input() is None:
            with pytest.raises(ModelError, match="the lens looks from there"):
                look.logit_lens()
            return
        for place in (-1, 2):
            lens, own = look.logit_lens(place, count=3), look.predictions(place, 3)
            assert [each.token.id for each in lens["logits"]] == [each.token.id for each in own]
            ours, theirs = (torch.tensor([each.logit for each in some]) for some in (lens["logits"], own))
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
            assert len(lens) == 3 or family == "gptj"


def test_the_lens_of_a_layer_is_the_final_norm_and_w_u_of_the_stream_before_it() -> None:
    with headscope.load(FAMILIES["llama"]()) as scope, torch.no_grad():
        own, ids = scope.model.model, IDS[0].tolist()
        hidden = own(IDS, output_hidden_states=True).hidden_states
        for layer, before in enumerate(hidden[:2]):
            logits = own.lm_head(own.model.norm(before))[0, 4]
            (found,) = scope.look(ids).logit_lens(4)[f"resid_pre {layer}"]
            assert found.token.id == int(logits.argmax())
            assert found.logit == pytest.approx(float(logits.max()), rel=1e-4)


@pytest.mark.parametrize("family", [*BUILD, "native"])
def test_a_value_is_read_where_a_vector_is_added(family: str) -> None:
    """The difference that steering makes to the value at its own point is the vector, and to z nothing before it."""
    with headscope.load(Blocks() if family == "native" else BUILD[family]()) as scope:
        text = [5, 9, 3, 7] if family == "native" else inputs_of(family)
        label, _ = layer_path(scope.model)
        vector = torch.randn(scope.shape.d_model, generator=torch.Generator().manual_seed(1))
        for name in (f"resid_pre {label}", f"resid_post {label}"):
            before = scope.look(text).recorded.value(name)
            with scope.edit(steer(name, vector)):
                torch.testing.assert_close(scope.look(text).recorded.value(name) - before, vector.expand_as(before))
        site = scope.look(text).sites[-1]
        z = scope.look(text).recorded.value(f"z {site}").transpose(0, 1)
        torch.testing.assert_close(z, scope.look(text).z(site))


def test_a_native_model_and_any_module_are_steered_and_hidden() -> None:
    for model in (Blocks(), None):
        with headscope.load(model) as scope:
            ids, vector = [5, 9, 3, 7], torch.ones(scope.shape.d_model)
            look, (label, path) = scope.look(ids), layer_path(scope.model)
            hook = scope.model.model.get_submodule(path).register_forward_pre_hook(
                lambda module, args: (args[0] + 4.0, *args[1:])
            )
            wanted = scope.look(ids).logits
            hook.remove()
            with scope.edit(steer(f"resid_pre {label}", 4 * vector)):
                torch.testing.assert_close(scope.look(ids).logits, wanted)
            with scope.edit(hide([1])):
                assert max(float(scope.look(ids).patterns(site)[:, 2:, 1].max()) for site in look.sites) == 0.0
            assert [each.token for each in look.logit_lens()["logits"]] == [look.predictions()[0].token]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x = torch.randn(1, 7, 32)
    with headscope.load(encoder, inputs=x) as scope, torch.no_grad():
        label, path = layer_path(scope.model)
        hook = encoder.get_submodule(path).register_forward_pre_hook(lambda module, args: (args[0] + 1.0, *args[1:]))
        wanted = scope.look(x).logits
        hook.remove()
        with scope.edit(steer(f"resid_pre {label}", torch.ones(32))):
            torch.testing.assert_close(scope.look(x).logits, wanted)
        with scope.edit(hide([2])):
            look = scope.look(x)
            assert max(float(look.patterns(site)[:, [0, 1, 3, 4, 5, 6], 2].max()) for site in look.sites) == 0.0
