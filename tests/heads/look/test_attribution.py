"""A frozen norm is the norm itself at that place; parts and shares add up to what the model computed."""

from __future__ import annotations

import pytest
import torch
from tests.models import tiny
from torch import nn

import headscope
from headscope.models.structure.unembedding import frozen_norm
from headscope.scope import Scope

WIDTH = 24


class OnePlus(nn.Module):
    """Gemma's RMSNorm: the gain is stored minus one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


def drawn(norm: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in norm.parameters():
        nn.init.normal_(parameter, mean=0.5, std=0.4)
    return norm


NORMS = {
    "RMS": lambda: drawn(nn.RMSNorm(WIDTH)),
    "RMS without gain": lambda: nn.RMSNorm(WIDTH, elementwise_affine=False),
    "layer": lambda: drawn(nn.LayerNorm(WIDTH)),
    "layer without bias": lambda: drawn(nn.LayerNorm(WIDTH, bias=False)),
    "layer without gain": lambda: nn.LayerNorm(WIDTH, elementwise_affine=False),
    "one plus": OnePlus,
}


@pytest.mark.parametrize("name", NORMS)
def test_a_frozen_norm_gives_what_the_norm_gives_there(name: str) -> None:
    norm = NORMS[name]()
    for seed in range(4):
        residual = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed)) * 3 + 1
        gain, centred = frozen_norm(norm, residual)
        inner = residual - residual.mean() if centred else residual
        bias = getattr(norm, "bias", None)
        expected = norm(residual[None, None])[0, 0].detach() - (0 if bias is None else bias.detach())
        torch.testing.assert_close(inner * gain, expected, atol=2e-3, rtol=2e-3)
        assert centred == name.startswith("layer")


def test_parts_and_bias_are_the_output_at_every_position(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    for position in (0, 7, len(ids) - 1):
        found = look.contributions(position)
        assert set(found.sites) == set(scope.shape.sites)
        for site in found.sites.values():
            torch.testing.assert_close(site.parts.sum(0) + site.bias, site.output, atol=1e-4, rtol=1e-4)
            assert site.error < 1e-4


def test_what_a_head_delivers_is_its_weights_times_its_values(llama: Scope, ids: list[int]) -> None:
    look = llama.look(ids)
    values: dict[str, torch.Tensor] = {}

    def see(site: str, call: object) -> torch.Tensor:
        from headscope.attention.observer import plain

        values[site] = call.v  # type: ignore[attr-defined]
        return plain(call)  # type: ignore[arg-type]

    with torch.no_grad():
        llama.model.run({"input_ids": torch.tensor([ids])}, see)
    for head in llama.shape.heads():
        site = llama.shape.sites[head.site]
        value = values[head.site][0, head.head // (site.n_heads // site.n_kv_heads)]
        delivered = look.contributions(9).sites[head.site].z[head.head]
        torch.testing.assert_close(delivered, look.pattern(head)[9] @ value, atol=1e-4, rtol=1e-4)


def test_shares_and_the_rest_are_the_logit(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    for token, minus in ((5, None), (40, 7)):
        shares = look.logit_attribution(token, minus=minus, position=11)
        expected = float(look.logits[11, token]) - (0.0 if minus is None else float(look.logits[11, minus]))
        assert shares.total == pytest.approx(expected, abs=1e-4)
        assert sum(shares.heads.values()) + shares.rest == pytest.approx(shares.total, abs=1e-4)
        assert list(shares.heads) == scope.shape.heads()
        assert shares.note


def test_a_difference_of_shares_is_the_share_of_a_difference(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    one, other, both = (look.logit_attribution(*pair, position=5) for pair in ((8,), (9,), (8, 9)))
    for head in scope.shape.heads():
        assert both.heads[head] == pytest.approx(one.heads[head] - other.heads[head], abs=1e-4)


def test_of_capped_logits_the_ones_before_the_cap_are_split(ids: list[int]) -> None:
    model = tiny.build(
        "Gemma2Config", "Gemma2ForCausalLM", **{**tiny.SIZES, "num_key_value_heads": 2}, head_dim=8,
        final_logit_softcapping=3.0, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.no_grad():
        model.lm_head.weight.mul_(2.0)
        capped = model(torch.tensor([ids])).logits[0, -1].double()
        before = 3.0 * torch.atanh(capped / 3.0)
        assert float((before - capped)[[11, 23]].abs().max()) > 0.1
    with headscope.load(model, tiny.tokenizer()) as scope:
        look = scope.look(ids)
        for minus, total in ((None, before[11]), (23, before[11] - before[23])):
            found, traced = look.logit_attribution(11, minus), look.trace(11, minus)
            assert found.total == pytest.approx(float(total), abs=1e-4)
            assert traced.total == pytest.approx(float(total), abs=1e-4)
            assert traced.constant == pytest.approx(0.0, abs=1e-4), "no writer is left: this model has no bias"
            assert f" {traced.total:+.2f} (before the cap)." in traced.sentence
