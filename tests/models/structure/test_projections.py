"""W_Q, W_K and W_V are found by following q, k and v back, and equal the model's own weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.attention.observer import Call, plain
from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.structure.projections import SIDES, find_projection

BLOOM = {"hidden_size": 32, "n_head": 4, "n_layer": 2, "vocab_size": 97}


def test_separate_projections() -> None:
    model = tiny.llama()
    opened = open_model(model)
    attention = model.model.layers[1].self_attn
    for ask, linear, heads in (
        (opened.query_weight, attention.q_proj, 4),
        (opened.key_weight, attention.k_proj, 2),
        (opened.value_weight, attention.v_proj, 2),
    ):
        assert torch.equal(ask("1"), linear.weight.view(heads, 8, 32).transpose(1, 2))
    opened.close()


def test_one_conv1d_for_all_three() -> None:
    model = tiny.gpt2()
    opened = open_model(model)
    whole = model.transformer.h[0].attn.c_attn.weight
    for index, ask in enumerate((opened.query_weight, opened.key_weight, opened.value_weight)):
        expected = whole[:, 32 * index : 32 * (index + 1)].view(32, 4, 8).transpose(0, 1)
        assert torch.equal(ask("0"), expected)
    opened.close()


def test_interleaved_by_head() -> None:
    model = tiny.build("GPTNeoXConfig", "GPTNeoXForCausalLM", **tiny.SIZES)
    opened = open_model(model)
    by_head = model.gpt_neox.layers[0].attention.query_key_value.weight.view(4, 3, 8, 32)
    for index, ask in enumerate((opened.query_weight, opened.key_weight, opened.value_weight)):
        assert torch.equal(ask("0"), by_head[:, index].transpose(1, 2))
    opened.close()


def test_cross_attention_reads_the_encoder() -> None:
    model = tiny.t5()
    opened = open_model(model)
    cross = model.decoder.block[1].layer[1].EncDecAttention
    assert torch.equal(opened.key_weight("decoder.1.cross"), cross.k.weight.view(4, 8, 32).transpose(1, 2))
    opened.close()


def test_a_latent_is_rejected() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 12, "qk_nope_head_dim": 8}
    more = {
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
    }
    model = tiny.build(
        "DeepseekV3Config", "DeepseekV3ForCausalLM", **sizes, **more, moe_intermediate_size=16, first_k_dense_replace=2
    )
    opened = open_model(model)
    assert (opened.shape.sites["0"].d_head, opened.shape.sites["0"].d_value) == (12, 6)
    with pytest.raises(ModelError, match="0: W_Q cannot be found: two matrices compute it, through a latent"):
        opened.query_weight("0")
    opened.close()


@pytest.mark.parametrize("build", [tiny.llama, tiny.gpt2, tiny.t5])
def test_every_heads_rows_make_its_own_query_key_and_value(build: Any) -> None:
    """The rows found for a head compute it, before any rotation: x · W + b at those outputs."""
    opened = open_model(build())
    site = next(iter(opened.shape.sites))
    fed = {which: find_projection(opened, site, which) for which in SIDES}
    made: dict[str, torch.Tensor] = {}
    hooks = [
        opened.model.get_submodule(path).register_forward_hook(
            lambda _, args, out, path=path: made.setdefault(path, out)
        )
        for path, _, _ in fed.values()
    ]
    calls: list[Call] = []

    def see(name: str, call: Call) -> torch.Tensor:
        if name == site:
            calls.append(call)
        return plain(call)

    with torch.no_grad():
        opened.run(opened.probe, see)
    for hook in hooks:
        hook.remove()
    for which, (path, _, rows) in fed.items():
        states = getattr(calls[0], which)
        assert len(rows) == states.shape[1]
        assert len({int(row) for each in rows for row in each}) == sum(map(len, rows)), "no output feeds two heads"
        for head, row in enumerate(rows):
            length = made[path][..., row].norm(dim=-1)
            torch.testing.assert_close(states[:, head].norm(dim=-1), length, atol=1e-5, rtol=1e-4)
    opened.close()


def test_a_site_that_the_probe_does_not_reach_has_no_projection() -> None:
    opened = open_model(tiny.llama())
    with pytest.raises(ModelError, match=r"another is not reached by the inputs this model was traced with"):
        find_projection(opened, "another", "q")
    opened.close()


def test_a_norm_over_all_heads_is_held() -> None:
    model = tiny.build("Olmo2Config", "Olmo2ForCausalLM", **tiny.SIZES)
    opened = open_model(model)
    weight = model.model.layers[1].self_attn.q_proj.weight
    assert torch.equal(opened.query_weight("1"), weight.view(4, 8, 32).transpose(1, 2))
    opened.close()


def test_a_module_that_calls_no_interface_has_projections() -> None:
    model = tiny.build("BloomConfig", "BloomForCausalLM", **BLOOM)
    opened = open_model(model)
    weight = model.transformer.h[1].self_attention.query_key_value.weight.view(4, 3, 8, 32)
    for index, ask in enumerate((opened.query_weight, opened.key_weight, opened.value_weight)):
        assert torch.equal(ask("1"), weight[:, index].transpose(1, 2))
    opened.close()


def test_parameters_of_the_attention_itself_are_split() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    opened = open_model(torch.nn.TransformerEncoder(layer, 2).eval(), inputs=torch.randn(2, 7, 32))
    weight: torch.Tensor = opened.model.layers[1].self_attn.in_proj_weight  # type: ignore[index, union-attr, assignment]
    for index, ask in enumerate((opened.query_weight, opened.key_weight, opened.value_weight)):
        own = weight[32 * index : 32 * index + 32].view(4, 8, 32).transpose(1, 2)
        assert torch.equal(ask(list(opened.shape.sites)[1]), own)
    opened.close()
