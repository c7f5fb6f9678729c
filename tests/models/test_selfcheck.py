"""The self-check refuses models that it should, with the check that failed and its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.heads.explain.families import FAMILIES
from tests.models import tiny

import headscope
from headscope.errors import ModelError
from headscope.models.huggingface import attention
from headscope.models.loading import open_model
from headscope.models.selfcheck import (
    _equal_logits,
    own_logits,
    relative_difference,
    run_self_check,
)


def test_it_lists_what_was_checked() -> None:
    opened = open_model(tiny.llama())
    assert [check.what for check in opened.self_check.checks] == [
        "sites reached",
        "logits equal the model's own",
        "head parts + bias = attention output",
        "an edit moves the logits",
    ]
    assert opened.self_check.passed
    assert "ok    sites reached: 2 of 2" in str(opened.self_check)
    opened.close()


def test_a_model_that_computes_otherwise_with_our_attention_is_refused() -> None:
    """Several families read the name of the implementation; this one doubles its queries for ours."""
    model = tiny.llama()
    before = model.config._attn_implementation
    for layer in model.model.layers:
        linear = layer.self_attn.q_proj

        def doubled(x: torch.Tensor, linear: Any = linear) -> torch.Tensor:
            factor = 2.0 if model.config._attn_implementation == "headscope" else 1.0
            return torch.nn.functional.linear(x, linear.weight) * factor

        linear.forward = doubled
    with pytest.raises(
        ModelError, match="fails its self-check and is not opened: logits equal the model's own: largest"
    ):
        open_model(model)
    assert model.config._attn_implementation == before


def test_an_unknown_argument_is_rejected() -> None:
    q = torch.randn(1, 2, 3, 4)
    module = torch.nn.Module()
    with pytest.raises(
        ModelError, match=r"Module passes temperature=2.0 to its attention, which headscope does not know"
    ):
        attention.attention(module, q, q, q, None, temperature=2.0)
    with pytest.raises(ModelError, match=r"passes tilt=<tensor \(3,\)>"):
        attention.attention(module, q, q, q, None, tilt=torch.ones(3))
    z, _ = attention.attention(module, q, q, q, None, temperature=None, use_cache=True, scaling=0.5)
    assert z.shape == (1, 3, 2, 4)


def test_blocks_need_their_width() -> None:
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(ModelError, match="passes block_indices, but its indexer has no block_size"):
        attention.attention(torch.nn.Module(), q, q, q, None, block_indices=torch.zeros(1, 1, 3, 1, dtype=torch.long))


def test_notes_name_attention_that_is_not_observed() -> None:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 48}
    model = tiny.build("SiglipVisionConfig", "SiglipVisionModel", **sizes, image_size=16, patch_size=8)
    opened = open_model(model)
    assert any("not observed" in note and "head" in note for note in opened.notes)
    opened.close()


def test_a_second_scope_does_not_disturb_the_first() -> None:
    model = tiny.llama()
    first = open_model(model)
    second = open_model(model)
    assert "logits equal" not in str(second.self_check)
    assert own_logits(model, first.probe, first.arguments) is None
    first.close()
    second.close()


def test_head_parts_that_do_not_add_up_or_are_nan_are_refused() -> None:
    opened = open_model(tiny.llama())
    original = opened.output_weight
    for factor in (1.01, float("nan")):
        opened.output_weight = lambda site, factor=factor: replace(  # type: ignore[method-assign]
            original(site), weight=original(site).weight * (factor if site == "0" else 1.0)
        )
        with pytest.raises(ModelError, match=r"head parts \+ bias = attention output: largest difference .* at 0"):
            run_self_check(opened, opened.probe, None)
    opened.close()


@pytest.mark.parametrize(
    ("ours", "own", "expected"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([7.0, 1.0], [float("-inf"), 2.0], 0.5),
        ([3.0], [float("nan")], float("inf")),
    ],
)
def test_a_difference_is_relative_and_over_finite_numbers(ours: list[float], own: list[float], expected: float) -> None:
    assert relative_difference(torch.tensor(ours), torch.tensor(own)) == pytest.approx(expected)


def test_a_model_that_no_edit_moves_is_refused() -> None:
    """W_O is zero, so attention has no effect on the logits."""
    model = tiny.llama()
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
    with pytest.raises(ModelError, match="an edit moves the logits: ablating any one site changes nothing"):
        open_model(model)


@pytest.mark.parametrize("family", ["llama", "gemma3", "opt", "neox"])
def test_families_whose_eager_attention_rounds_weights_to_float32_open_in_float64(family: str) -> None:
    with headscope.load(FAMILIES[family]().double()) as scope:
        assert scope.look([5, 6, 7]).pattern("1.1").dtype == torch.float64


def test_such_a_family_is_pruned_in_float64() -> None:
    with headscope.load(FAMILIES["opt"]().double()) as scope:
        with scope.edit(headscope.ablate("0.1")):
            expected = scope.look([5, 6, 7]).logits
        pruned = scope.prune(heads=["0.1"]).model
        torch.testing.assert_close(pruned.run(pruned.prepare([5, 6, 7]).inputs).logits[0], expected)
        pruned.close()


@pytest.mark.parametrize(
    ("gap", "dtype", "holds"),
    [
        (0.0, torch.float32, True),
        (0.9e-4, torch.float32, True),
        (1.1e-4, torch.float32, False),
        (0.9e-6, torch.float64, True),
        (1.1e-6, torch.float64, False),
        (0.05, torch.bfloat16, True),
        (0.07, torch.bfloat16, False),
    ],
)
def test_logits_may_differ_by_what_their_precision_rounds_off(gap: float, dtype: torch.dtype, holds: bool) -> None:
    own = torch.tensor([[[1.0, -0.25]]], dtype=torch.float64)
    moved = own - torch.tensor([gap, 0.0], dtype=torch.float64)
    assert _equal_logits(own.to(dtype), moved if dtype != torch.bfloat16 else moved.to(dtype)).holds is holds


def test_sdpa_decides_where_eager_attention_is_not_a_number() -> None:
    model = tiny.llama()
    inputs, used = {"input_ids": torch.tensor([[3, 4, 5]])}, []
    own = model(**inputs).logits.detach()
    broken: set[str] = set()

    def spoil(module: Any, args: Any, output: Any) -> Any:
        used.append(model.config._attn_implementation)
        return output * float("nan") if used[-1] in broken else output

    model.lm_head.register_forward_hook(spoil)
    for broken, names in ((set(), ["eager"]), ({"eager"}, ["eager", "sdpa"]), ({"eager", "sdpa"}, ["eager", "sdpa"])):
        used.clear()
        found = own_logits(model, inputs, {})
        assert used == names
        assert found is not None
        assert bool(found.isnan().any()) is (len(broken) == 2)
        if len(broken) < 2:
            torch.testing.assert_close(found, own)
    assert own_logits(model, inputs, {}) is not None
