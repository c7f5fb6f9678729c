"""What W_O writes, at the end of the residual stream: one factor, or a refusal."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny

import headscope
from headscope.errors import ModelError
from headscope.models.stream import stream_scales
from headscope.names import Head

IDS = [5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
def test_most_families_add_what_is_written(build: object) -> None:
    with headscope.load(build()) as scope:  # type: ignore[operator]
        sites = scope.look(IDS).contributions(0).sites
        assert {scope.model.stream_scale(site) for site in sites} == {1.0}


def test_granite_multiplies_what_is_written_and_its_shares_with_it() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "residual_multiplier": 0.22, "logits_scaling": 2.0}
    model = tiny.build("GraniteConfig", "GraniteForCausalLM", **sizes)
    with headscope.load(model) as scope:
        look = scope.look(IDS)
        shares = look.logit_shares(7, minus=8)
        assert scope.model.stream_scale("1") == pytest.approx(0.22, rel=1e-4)
        assert "multiplied by a factor before it joins the residual stream" in shares.note
        with torch.no_grad():
            residual = scope.model.run(look.prepared.inputs, residual=True).residual
            assert residual is not None
            scale = (residual[0, -1].square().mean() + model.model.norm.variance_epsilon).rsqrt()
            written = 0.22 * look.contributions(-1).part("0.3") * scale * model.model.norm.weight
            expected = written @ (model.lm_head.weight[7] - model.lm_head.weight[8]) / 2.0
        assert shares.heads[Head("0", 3)] == pytest.approx(float(expected), rel=1e-3)


class _PostNorm(torch.nn.Module):
    """A stream that a norm stands in: what the first writer adds is divided by everything there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x + self.first(x))
        return y + self.second(y)


def test_a_norm_in_the_stream_is_no_factor() -> None:
    torch.manual_seed(0)
    model = _PostNorm()
    writers = {"0": model.first, "1": model.second}
    found = stream_scales(lambda inputs: model(inputs["x"]), writers, {"x": torch.randn(1, 5, 8)})
    assert found == {"0": None, "1": 1.0}


def test_a_site_that_never_reaches_the_stream_is_refused() -> None:
    with headscope.load(tiny.t5()) as scope, pytest.raises(ModelError, match=r"encoder\.0: what W_O writes does not"):
        scope.model.stream_scale("encoder.0")
