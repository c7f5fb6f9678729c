"""Which KV heads stay when query heads are removed, and the matrices that repeat KV heads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models import tiny
from torch import nn
from transformers.pytorch_utils import Conv1D

from headscope.errors import ModelError
from headscope.models.loading import open_model
from headscope.models.pruning.pruned_modeling import SCHEMA_VERSION, SharedHeads, shrink
from headscope.models.pruning.remove_heads import (
    _reopened,
    _why_different,
    pruned_site,
    remove_heads,
)
from headscope.names import Site


@st.composite
def sites_and_heads(draw: st.DrawFn) -> tuple[Site, list[int]]:
    n_kv, group = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    heads = draw(st.lists(st.integers(0, n_kv * group - 1), min_size=1, unique=True))
    return Site("0", n_kv * group, n_kv, 8, 6), heads


@given(sites_and_heads())
def test_every_head_that_stays_reads_its_own_kv_head(drawn: tuple[Site, list[int]]) -> None:
    site, heads = drawn
    left = pruned_site(site, "layers.0", heads)
    assert left.heads == tuple(sorted(heads))
    assert set(left.kv) == {head // site.group_size for head in heads}
    assert len(left.heads) % len(left.kv_order) == 0
    group = len(left.heads) // len(left.kv_order)
    for index, head in enumerate(left.heads):
        assert left.kv[left.kv_order[index // group]] == head // site.group_size


@given(sites_and_heads())
def test_kv_heads_are_repeated_no_more_than_needed(drawn: tuple[Site, list[int]]) -> None:
    site, heads = drawn
    left = pruned_site(site, "layers.0", heads)
    counts = [sum(head // site.group_size == kv for head in heads) for kv in left.kv]
    even = all(a == b for a, b in pairwise(counts))
    assert left.repeats_kv != even
    sharing = [n for n in range(1, min(counts) + 1) if all(count % n == 0 for count in counts)]
    assert len(left.kv_order) == len(heads) // max(sharing)


def test_shared_heads_are_computed_once_and_repeated_in_order() -> None:
    matrix = nn.Linear(5, 6)
    shared = SharedHeads(5, 6)
    shared.load_state_dict(matrix.state_dict())
    shared.heads, shared.d_head = [1, 0, 1], 3
    x = torch.randn(2, 4, 5)
    first, second = matrix(x)[..., :3], matrix(x)[..., 3:]
    assert torch.equal(shared(x), torch.cat((second, first, second), -1))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv, self.norm = nn.Linear(8, 12), Conv1D(12, 8), nn.LayerNorm(8)
        self.n_heads, self.rate, self.name = 4, 0.5, "small"


def layout(**given: object) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "matrices": {}, "shared": {}, "attributes": {}, **given}


def test_matrices_of_both_kinds_become_smaller() -> None:
    model = Small()
    sizes = {"linear": (8, 6), "conv": (4, 9)}
    shrink(model, layout(matrices=sizes, attributes={"": {"n_heads": 2}}))
    assert model.linear(torch.randn(3, 8)).shape == (3, 6)
    assert (model.linear.in_features, model.linear.out_features) == (8, 6)
    assert model.conv.weight.shape == (4, 9)
    assert model.conv(torch.randn(3, 4)).shape == (3, 9)
    assert (model.n_heads, model.linear.bias.shape) == (2, (6,))


def test_a_shared_matrix_keeps_its_weights() -> None:
    model = Small()
    before = model.linear.weight.clone()
    shrink(model, layout(shared={"linear": {"heads": [2, 0], "d_head": 4}}))
    assert isinstance(model.linear, SharedHeads)
    assert torch.equal(model.linear.weight, before)
    x = torch.randn(1, 8)
    plain = x @ before.T + model.linear.bias
    torch.testing.assert_close(model.linear(x), torch.cat((plain[:, 8:], plain[:, :4]), -1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schema_version": 7}, "pruned_heads has schema_version 7; expected 1"),
        ({"matrices": {"linear": (9, 12)}}, "makes linear 9 × 12, but it is 8 × 12"),
        ({"matrices": {"linear": (0, 12)}}, "makes linear 0 × 12, but it is 8 × 12"),
        ({"matrices": {"linear": (8, 0)}}, "makes linear 8 × 0, but it is 8 × 12"),
        ({"matrices": {"conv": (8, 13)}}, "makes conv 8 × 13, but it is 8 × 12"),
        ({"matrices": {"norm": (8, 8)}}, "names norm, a LayerNorm; only plain matrices lose heads"),
        ({"shared": {"linear": {"heads": [0], "d_head": 5}}}, "shares heads of linear, which has none of size 5"),
        ({"shared": {"linear": {"heads": [0], "d_head": 0}}}, "shares heads of linear, which has none of size 0"),
        ({"shared": {"conv": {"heads": [0], "d_head": 4}}}, "shares heads of conv, which has none of size 4"),
        ({"shared": {"linear": {"heads": [3], "d_head": 4}}}, r"shares heads \[3\] of linear, which has 3"),
        ({"shared": {"linear": {"heads": [-1], "d_head": 4}}}, r"shares heads \[-1\] of linear"),
        ({"shared": {"linear": {"heads": [], "d_head": 4}}}, r"shares heads \[\] of linear"),
        ({"attributes": {"": {"n_heads": 0}}}, "n_heads to 0, which is not a size there"),
        ({"attributes": {"": {"n_heads": True}}}, "n_heads to True, which is not a size"),
        ({"attributes": {"": {"rate": 1}}}, "rate to 1, which is not a size there"),
        ({"attributes": {"": {"forward": 1}}}, "forward to 1, which is not a size there"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(wrong: dict[str, object], message: str) -> None:
    """A folder's config is not trusted: it may make matrices smaller, and nothing else."""
    with pytest.raises(ValueError, match=message):
        shrink(Small(), layout(**wrong))


@pytest.mark.parametrize("kept", [{"0": [1]}, {"1": [0, 3]}, {"0": [0, 2, 3], "1": [1]}], ids=str)
def test_a_pruned_model_has_the_logits_of_the_ablated_one(kept: dict[str, list[int]]) -> None:
    """The removed heads are zeroed by a hook on W_O, without headscope."""
    model = tiny.llama()
    ids = torch.randint(3, 90, (2, 11))
    opened = open_model(model)
    smaller, _ = remove_heads(opened, kept)
    opened.close()
    hooks = []
    for site, heads in kept.items():
        stays = torch.zeros(4, 8)
        stays[heads] = 1.0

        def ablate(module: nn.Module, args: tuple[torch.Tensor], stays: torch.Tensor = stays) -> tuple[torch.Tensor]:
            return (args[0] * stays.flatten(),)

        hooks.append(model.model.layers[int(site)].self_attn.o_proj.register_forward_pre_hook(ablate))
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        torch.testing.assert_close(smaller.model(input_ids=ids).logits, wanted, atol=2e-5, rtol=1e-4)
    assert sum(p.numel() for p in smaller.model.parameters()) < sum(p.numel() for p in model.parameters())
    for hook in hooks:
        hook.remove()
    smaller.close()


def test_a_layer_that_runs_twice_cannot_be_pruned() -> None:
    sizes = {"embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1, "vocab_size": 97, "hidden_size": 32}
    model = tiny.build(
        "AlbertConfig", "AlbertForMaskedLM", **sizes, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32
    )
    opened = open_model(model)
    first, second = opened.shape.sites
    with pytest.raises(ModelError, match=f"{first} is the same module as {second}; shared layers cannot be pruned"):
        remove_heads(opened, {first: [0]})
    opened.close()


def test_heads_that_a_config_can_count_are_counted_in_it() -> None:
    """Six query heads and three KV heads become four and two; what else is six stays so."""
    model = tiny.llama(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=3, num_hidden_layers=1, pad_token_id=6, head_dim=8
    )
    smaller, by_config = remove_heads(open_model(model), {"0": [0, 1, 4, 5]})
    config = smaller.model.config
    assert by_config
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 8)
    assert (config.pad_token_id, config.num_hidden_layers) == (6, 1)
    assert not hasattr(config, "pruned_heads")
    smaller.close()
    assert config._attn_implementation == "sdpa"


def test_tied_weights_stay_tied_and_in_their_precision() -> None:
    smaller, by_config = remove_heads(open_model(tiny.gpt2().to(torch.bfloat16)), {"0": [0, 1, 2]})
    assert not by_config
    assert smaller.model.lm_head.weight is smaller.model.transformer.wte.weight
    assert {weight.dtype for weight in smaller.model.parameters()} == {torch.bfloat16}
    smaller.close()


class OtherLinear(nn.Linear):
    """A matrix that may do more than multiply."""


def shares_a_projection() -> Any:
    model = tiny.llama()
    first, second = (layer.self_attn for layer in model.model.layers)
    second.k_proj = first.k_proj
    return model


def has_another_matrix() -> Any:
    model = tiny.llama()
    own = model.model.layers[1].self_attn
    own.v_proj = OtherLinear(32, 16, bias=False)
    return model


ONE_MATRIX = {**tiny.SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("build", "kept", "message"),
    [
        (shares_a_projection, {"0": [0, 1], "1": [0, 1]}, r"1 shares .*k_proj with 0; heads that share weights cannot"),
        (has_another_matrix, {"1": [0, 1]}, r"1: .*v_proj is a OtherLinear; only plain matrices"),
        (
            lambda: tiny.build("BitNetConfig", "BitNetForCausalLM", **ONE_MATRIX), {"0": [0, 1]},
            "0: its heads cannot be removed, because they are mixed before W_O: a norm over all heads",
        ),
        (
            lambda: tiny.build("Phi3Config", "Phi3ForCausalLM", **ONE_MATRIX), {"0": [0, 1, 2]},
            "0: q, k and v come from one matrix, so every KV head .* query heads; 3 over 2 KV heads are left",
        ),
        (tiny.t5, {"encoder.0": [0]}, r"cannot be pruned: T5Attention does not work with fewer heads \(RuntimeError: "),
    ],
    ids=["shared", "another kind", "mixed", "one matrix", "a table by head"],
)  # fmt: skip
def test_what_cannot_lose_heads_is_rejected(build: Any, kept: dict[str, list[int]], message: str) -> None:
    opened = open_model(build())
    with pytest.raises(ModelError, match=message):
        remove_heads(opened, kept)
    opened.close()


class Fails(nn.Module):
    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def forward(self, **given: Any) -> None:
        raise ValueError(self.message)


@torch.no_grad()
def test_what_is_different_in_a_smaller_model_is_said() -> None:
    opened = open_model(tiny.llama())
    wanted = opened.run(opened.probe).logits
    other = tiny.llama()
    assert _why_different(other, opened, wanted) is None
    assert _why_different(other, opened, wanted[:1]) == (
        f"its logits have shape {tuple(wanted.shape)} instead of {tuple(wanted[:1].shape)}"
    )
    assert str(_why_different(other, opened, 2 * wanted)).startswith("its logits are off by 5.0e-01, at most ")
    assert _why_different(Fails("first\nsecond"), opened, wanted) == "ValueError: first"
    assert _why_different(Fails(""), opened, wanted) == "ValueError: "
    with pytest.raises(ModelError, match=r"LlamaForCausalLM cannot be pruned: its logits are off by 5\.0e-01"):
        _reopened(opened, tiny.llama(), 2 * wanted)
    broken = tiny.llama()
    with torch.no_grad():
        broken.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="LlamaForCausalLM cannot be pruned: "):
        _reopened(opened, broken, wanted)
    opened.close()
