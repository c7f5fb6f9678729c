"""Patching equals hooks written by hand at every cell, and its gradient a small step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headscope
from headscope.errors import EditError, InputError
from headscope.heads.patching import Patching
from headscope.scope import Scope
from tests.heads.blocks import Blocks
from tests.heads.conftest import small_gpt2, small_llama
from tests.heads.explain.families import FAMILIES

CLEAN, CORRUPTED = [5, 9, 11, 3, 17, 22], [5, 9, 40, 3, 8, 22]
ANSWERS = (7, 30)


def metric(logits: Tensor) -> Tensor:
    return logits[-1, 7] - logits[-1, 30]


def modules(model: Any, at: str) -> list[nn.Module]:
    """Where each layer's value is: the input of W_O, or what a hook of TransformerLens's name is at."""
    if hasattr(model, "transformer"):
        of: dict[str, Callable[[Any], nn.Module]] = {
            "z": lambda h: h.attn.c_proj, "attn_out": lambda h: h.attn.c_proj, "mlp_out": lambda h: h.mlp.c_proj,
        }  # fmt: skip
        return [of.get(at, lambda h: h)(layer) for layer in model.transformer.h]
    of = {
        "z": lambda h: h.self_attn.o_proj,
        "attn_out": lambda h: h.self_attn.o_proj,
        "mlp_out": lambda h: getattr(h.mlp, "down_proj", h.mlp),
    }
    return [of.get(at, lambda h: h)(layer) for layer in model.model.layers]


def by_hand(scope: Scope, at: str, by: str) -> Tensor:
    """Every cell in a pass of its own."""
    model: Any = scope.model.model
    ids, n_heads = torch.tensor([CORRUPTED]), scope.shape.sites["0"].n_heads
    is_input, rows = at in ("z", "resid_pre"), []

    def hooked(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Any:
        def after(module: nn.Module, args: Any, output: Any) -> Any:
            return change(output) if isinstance(output, Tensor) else (change(output[0]), *output[1:])

        if is_input:
            return module.register_forward_pre_hook(lambda module, args: (change(args[0]), *args[1:]))
        return module.register_forward_hook(after)

    def run(tokens: Tensor) -> float:
        return float(metric(model(tokens).logits[0]))

    with torch.no_grad():
        top, base = run(torch.tensor([CLEAN])), run(ids)
        for module in modules(model, at):
            kept: list[Tensor] = []
            hook = hooked(module, lambda value, kept=kept: (kept.append(value.clone()), value)[1])
            run(torch.tensor([CLEAN]))
            hook.remove()
            row = []
            for cell in range(n_heads if by == "head" else len(CLEAN)):

                def put(value: Tensor, cell: int = cell, new: Tensor = kept[0]) -> Tensor:
                    value = value.clone()
                    width = value.shape[-1] // n_heads
                    where = (..., slice(cell * width, cell * width + width)) if by == "head" else (slice(None), cell)
                    value[where] = new[where]
                    return value

                hook = hooked(module, put)
                row.append((run(ids) - base) / (top - base))
                hook.remove()
            rows.append(row)
    return torch.tensor(rows)


CELLS = [("z", "head"), *((at, "position") for at in ("z", "resid_pre", "resid_post", "attn_out", "mlp_out"))]


MODELS = {"gpt2": small_gpt2, "llama": small_llama, "mixtral": FAMILIES["mixtral"]}


@pytest.mark.parametrize(("at", "by"), CELLS)
@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_every_cell_equals_a_hook_written_by_hand(build: Any, at: str, by: Any) -> None:
    with headscope.load(build()) as scope:
        found = scope.patching(CLEAN, CORRUPTED, ANSWERS, at=at, by=by)
        torch.testing.assert_close(found.effect, by_hand(scope, at, by), atol=1e-4, rtol=1e-4)
        assert found.effect.shape == (len(scope.shape.sites), len(found.columns))
        assert found.table().num_rows == found.effect.numel()
        assert (found.clean, found.corrupted) == pytest.approx(
            [float(metric(scope.look(ids).logits)) for ids in (CLEAN, CORRUPTED)], rel=1e-4
        )


@pytest.mark.parametrize(("at", "by"), CELLS)
def test_attribution_is_the_slope_of_the_exact_effect(at: str, by: Any) -> None:
    """Between two texts whose embeddings are almost one, first order is all there is."""
    model: Any = small_gpt2().double()
    with torch.no_grad():
        table = model.transformer.wte.weight
        for near, own in zip(CLEAN, CORRUPTED, strict=True):
            table[near] = table[own] + (1e-5 * torch.randn(table.shape[1], dtype=table.dtype) if near != own else 0)
    with headscope.load(model) as scope:
        with pytest.warns(UserWarning, match="the metric hardly differs"):
            exact = scope.patching(CLEAN, CORRUPTED, metric, at=at, by=by)
        with pytest.warns(UserWarning, match="the metric hardly differs"):
            slope = scope.patching(CLEAN, CORRUPTED, metric, at=at, by=by, how="attribution")
    assert slope.estimated
    torch.testing.assert_close(slope.effect, exact.effect, atol=2e-3, rtol=2e-3)


@pytest.mark.filterwarnings("ignore:the metric hardly differs")
@pytest.mark.parametrize("family", ["gemma3", "bert", "opt", "neox", "native", "gptj"])
def test_all_positions_of_the_first_stream_carry_the_whole_difference(family: str) -> None:
    """At one changed token, the stream before the first layer is all that differs."""
    from tests.models import tiny

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 97}
    build = {
        **FAMILIES,
        "native": lambda: Blocks(),
        "gptj": lambda: tiny.build("GPTJConfig", "GPTJForCausalLM", **sizes),
    }[family]
    clean, corrupted = [5, 9, 11, 3], [5, 9, 4, 3]
    with headscope.load(build()) as scope:
        found = scope.patching(clean, corrupted, (7, 12), at="resid_pre", by="position")
        torch.testing.assert_close(found.effect[0], torch.tensor([0.0, 0.0, 1.0, 0.0]), atol=1e-3, rtol=1e-3)
        scope.patching(clean, corrupted, (7, 12))


def test_what_cannot_be_patched_is_refused_and_the_rest_is_told() -> None:
    with headscope.load(small_llama()) as scope:
        with pytest.raises(InputError, match="clean text has 6 tokens and the corrupted one 5"):
            scope.patching(CLEAN, CORRUPTED[:5], ANSWERS)
        with pytest.raises(InputError, match="at='mlp_out' has no heads"):
            scope.patching(CLEAN, CORRUPTED, ANSWERS, at="mlp_out")
        with pytest.raises(InputError, match="on the clean text and"):
            scope.patching(CLEAN, CLEAN, ANSWERS)
        with scope.edit(headscope.ablate("0.1")), pytest.raises(EditError, match=r"scope\.patching measures"):
            scope.patching(CLEAN, CORRUPTED, ANSWERS)


def test_the_effect_is_printed_for_a_person() -> None:
    effect = torch.tensor([[0.5, -0.25], [float("nan"), 1.0]])
    text = str(Patching(effect, ("0", "1"), ("0", "1"), "z", "head", 2.0, -1.0, False))
    assert text.splitlines() == [
        "Metric: +2.000 on the clean text, -1.000 on the corrupted one.",
        "Effect of patching z by head, measured: 1 is as clean, 0 as corrupted.",
        "  1.1    +1.000",
        "  0.0    +0.500",
        "  0.1    -0.250",
    ]
