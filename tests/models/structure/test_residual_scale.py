"""The factor between W_O's output and the end of the residual stream is measured, or refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.models import tiny
from torch import Tensor, nn

import headscope
from headscope.errors import ModelError
from headscope.lab.teach.by_hand import by_hand
from headscope.lab.teach.tiny_transformer import TinyConfig, TinyTransformer
from headscope.models.structure.residual_scale import (
    NO_END,
    NOT_A_SUM,
    NOT_ADDED,
    residual_scales,
)
from headscope.names import Head

IDS = [5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
def test_most_families_add_attention_outputs_unscaled(build: object) -> None:
    with headscope.load(build()) as scope:  # type: ignore[operator]
        sites = scope.look(IDS).contributions(0).sites
        assert {scope.model.residual_scale(site) for site in sites} == {1.0}


def test_granites_residual_multiplier_is_measured_and_scales_logit_attribution() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "residual_multiplier": 0.22, "logits_scaling": 2.0}
    model = tiny.build("GraniteConfig", "GraniteForCausalLM", **sizes)
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        attribution = look.logit_attribution(7, minus=8)
        assert scope.model.residual_scale("1") == pytest.approx(0.22, rel=1e-4)
        assert "multiplied by a factor before it joins the residual stream" in attribution.note
        with torch.no_grad():
            residual = scope.model.run(look.prepared.inputs, residual=True).residual
            assert residual is not None
            scale = (residual[0, -1].square().mean() + model.model.norm.variance_epsilon).rsqrt()
            written = 0.22 * look.contributions(-1).part("0.3") * scale * model.model.norm.weight
            expected = written @ (model.lm_head.weight[7] - model.lm_head.weight[8]) / 2.0
        assert attribution.heads[Head("0", 3)] == pytest.approx(float(expected), rel=1e-3)


class _Blocks(torch.nn.Module):
    """Two writers into one stream, a branch beside the first, and something between them."""

    def __init__(self, between: torch.nn.Module, branch: torch.nn.Module) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.between, self.branch = between, branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.first(x)
        y = self.between(y + self.branch(y))
        return y + self.second(y)


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x


class _Gains(torch.nn.Module):
    """Multiplies each dimension by a small factor of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.arange(1, 9) * 1e-4


class _Experts(torch.nn.Module):
    """A branch whose large weight is not a module, and that reads through a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.weight = torch.nn.Parameter(10 * torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bti,ij->btj", self.norm(x), self.weight)


class _Squared(torch.nn.Linear):
    """A matrix whose output is squared: not linear."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).square()


def found_in(between: torch.nn.Module, branch: torch.nn.Module) -> dict[str, float | str]:
    torch.manual_seed(0)
    model = _Blocks(between, branch)
    writers = {"0": model.first, "1": model.second}
    return residual_scales(model, lambda inputs: model(inputs["x"]), writers, {"x": torch.randn(1, 5, 8)})


@pytest.mark.parametrize(
    ("between", "branch", "expected"),
    [
        (torch.nn.Identity(), torch.nn.Linear(8, 8), 1.0),
        (torch.nn.Identity(), _Squared(8, 8), 1.0),
        (_Scaled(), torch.nn.Linear(8, 8), 0.5),
        (torch.nn.Identity(), _Experts(), 1.0),
        (torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), NOT_A_SUM),
        (torch.nn.Hardtanh(), torch.nn.Linear(8, 8), NOT_A_SUM),
        (_Gains(), torch.nn.Linear(8, 8), NOT_A_SUM),
        (torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), NOT_ADDED),
    ],
    ids=["a plain branch", "a nonlinear branch", "one factor", "experts", "a norm", "a clamp", "gains", "a matrix"],
)
def test_only_modules_on_the_stream_itself_change_the_factor(
    between: torch.nn.Module, branch: torch.nn.Module, expected: float | str
) -> None:
    """What a branch computes from an earlier output is the branch's own output."""
    first = expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-5)
    assert found_in(between, branch) == {"0": first, "1": 1.0}


class _Again(torch.nn.Module):
    """One writer, called in two layers, and a factor between them."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = 0.5 * (x + self.writer(x))
        return y + self.writer(y)


def test_a_module_that_layers_share_has_a_factor_for_each_call() -> None:
    model = _Again()
    writers = {"0": model.writer, "0@2": model.writer}
    found = residual_scales(model, lambda inputs: model(inputs["x"]), writers, {"x": torch.randn(1, 5, 8)})
    assert found == {"0": pytest.approx(0.5, rel=1e-5), "0@2": 1.0}


def test_a_model_without_norms_is_split_over_its_heads() -> None:
    """Induction by hand: the first layer feeds the keys of the second, and the second writes the prediction."""
    with headscope.load(by_hand("induction")) as scope:
        attribution = scope.look([1, 2, 3, 4, 1, 2]).logit_attribution(3)
        assert attribution.heads == {Head("0", 0): 0.0, Head("1", 0): pytest.approx(attribution.total)}
        assert attribution.total > 1
        assert attribution.note == "no norm stands before W_U"


def test_a_model_without_a_residual_stream_has_no_factor_for_its_first_layer() -> None:
    """The second layer replaces what the first wrote."""
    torch.manual_seed(0)
    model = TinyTransformer(TinyConfig(vocabulary=11, context=8, d_model=8, n_layers=2, n_heads=2, residual=False))
    with headscope.load(model) as scope:
        assert scope.model.residual_scale("1") == 1.0
        with pytest.raises(ModelError, match=f"^0: {re.escape(NOT_ADDED)}, so a logit cannot be split"):
            scope.look([1, 2, 3]).logit_attribution(3)


@pytest.mark.parametrize(
    ("build", "site", "why"),
    [(tiny.t5, "encoder.0", NOT_ADDED), (tiny.opt, "0", NO_END)],
    ids=["another stream", "a norm inside the last layer"],
)
def test_a_refusal_says_why(build: object, site: str, why: str) -> None:
    with headscope.load(build()) as scope, pytest.raises(ModelError, match=f"^{site}: {re.escape(why)}"):  # type: ignore[operator]
        scope.model.residual_scale(site)


def test_a_pass_of_another_thread_is_not_touched_while_it_is_measured() -> None:
    with headscope.load(tiny.llama()) as scope, ThreadPoolExecutor(1) as beside:
        model, found = scope.model, []
        texts = [{name: value[:1].roll(turn, -1) for name, value in model.probe.items()} for turn in range(3)]
        writers = {"0": model.model.get_submodule("model.layers.0.self_attn.o_proj")}

        def residual_of(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
            found.append(beside.submit(lambda: model.run(texts[len(found)]).logits).result())
            return model.run(inputs, residual=True).residual

        assert residual_scales(model.model, residual_of, writers, model.probe) == {"0": 1.0}
        for text, logits in zip(texts, found, strict=True):
            assert torch.equal(logits, model.run(text).logits)


Join = Callable[[Tensor, Tensor], Tensor]


def measured(join: Join, dtype: torch.dtype = torch.float32, size: float = 1.0) -> float | str:
    """The factor of one matrix whose output is joined to a stream of this size."""
    model = nn.Linear(16, 16).to(dtype)
    stream = (size * torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(1))).to(dtype)

    def end(inputs: Mapping[str, Tensor]) -> Tensor:
        return join(inputs["x"], model(inputs["x"]))

    return residual_scales(model, end, {"0": model}, {"x": stream})["0"]
