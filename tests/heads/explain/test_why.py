"""Attention scores split over writers: identities, references by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.heads.conftest import counting_forwards
from tests.heads.explain.families import FAMILIES, IDS, inputs_of
from tests.lab import by_hand
from tests.models import tiny
from transformers import DiffLlamaConfig, DiffLlamaForCausalLM

import headscope
from headscope.errors import InputError, ModelError
from headscope.heads.explain import score_split
from headscope.heads.explain import why as why_module
from headscope.heads.look.look import Look
from headscope.models.native import NativeModel
from headscope.scope import Scope


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_add_up_to_the_score_and_the_pattern(family: str) -> None:
    with headscope.load(FAMILIES[family]()) as scope:
        look = scope.look(inputs_of(family))
        for site in look.sites:
            head = f"{site}.{scope.shape.sites[site].n_heads - 1}"
            row = look.why_row(head, -1)
            logits = torch.tensor([why.baseline + float(why.pairs.sum()) + sum(why.terms.values()) for why in row])
            weights = look.pattern(head)[-1, [why.key.position for why in row]]
            torch.testing.assert_close(logits.softmax(0), weights, rtol=0, atol=1e-5)
            assert max(why.error for why in row) <= 1e-5
            for why in row:
                sums = [
                    sum(share.value for share in side) + sum(why.terms.values()) for side in (why.asked, why.answered)
                ]
                assert sums == pytest.approx([why.total] * 2, abs=1e-4)


def test_parts_equal_those_that_are_carried_by_hand() -> None:
    """Llama, one layer up: embedding, W_O by head and MLP, through the held RMSNorm, W_K and RoPE."""
    model = FAMILIES["llama"]()
    layers: Any = model.model.layers
    kept: dict[str, torch.Tensor] = {}
    layers[0].self_attn.o_proj.register_forward_pre_hook(lambda _, args: kept.update(z=args[0]))
    layers[0].mlp.register_forward_hook(lambda _, args, output: kept.update(mlp=output))
    layers[1].input_layernorm.register_forward_pre_hook(lambda _, args: kept.update(stream=args[0]))
    with headscope.load(model) as scope:
        look = scope.look(IDS[0].tolist())
        scores = why_module.explained(look).scores(headscope.Head("1", 3))
    with torch.no_grad():
        weight = layers[0].self_attn.o_proj.weight.view(32, 4, 8)
        heads = torch.einsum("thd,mhd->htm", kept["z"][0].view(-1, 4, 8), weight)
        written = torch.cat([model.model.embed_tokens(IDS), heads, kept["mlp"]])
        stream, norm = kept["stream"][0], layers[1].input_layernorm
        held = written * torch.rsqrt(stream.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon) * norm.weight
        keys = (held @ layers[1].self_attn.k_proj.weight.T)[..., 8:]
        cos, sin = model.model.rotary_emb(stream, torch.arange(12)[None])
        turned = keys * cos + torch.cat((-keys[..., 4:], keys[..., :4]), -1) * sin
    assert [writer.name for writer in scores.k.writers] == ["embedding", "0.0", "0.1", "0.2", "0.3", "mlp 0"]
    torch.testing.assert_close(scores.k.parts, turned, rtol=1e-4, atol=1e-5)


def test_calls_that_are_joined_before_one_matrix_are_one_writer() -> None:
    """Differential attention subtracts two calls before W_O: what it writes is neither call's heads."""
    torch.manual_seed(0)
    config = DiffLlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    with headscope.load(DiffLlamaForCausalLM(config).eval()) as scope:
        row = scope.look([3, 1, 4, 1, 5, 9, 2, 6]).why_row("1.1", -1)
        assert {share.name.split()[0] for share in row[0].asked} == {"embedding", "attention", "mlp"}
        assert max(why.error for why in row) <= 1e-5


def test_position_part_is_the_score_at_this_offset_beyond_the_mean_over_offsets(llama: Scope, ids: list[int]) -> None:
    why = (look := llama.look(ids)).why("1.2", 9, 6)
    scores = why_module.explained(look).scores(headscope.Head("1", 2))
    module: Any = llama.model.model
    cos, sin = module.model.rotary_emb(torch.zeros(1), torch.arange(len(ids))[None])

    def turn(x: torch.Tensor, at: int, back: bool = False) -> torch.Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[half:], x[:half]))
        return x * cos[0, at] + turned * sin[0, at] * (-1 if back else 1)

    q, k = scores.source.q[0, 0, 9], turn(scores.source.k[0, 0, 6], 6, back=True)
    at_offsets = [float(q @ turn(k, key)) * scores.scale for key in range(10)]
    assert why.position_part == pytest.approx(at_offsets[6] - sum(at_offsets) / 10, abs=1e-5)


def test_relative_to_another_key_and_to_the_others(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    row = {why.key.position: why for why in look.why_row("1.1", 8)}
    assert sum(why.total for why in row.values()) == pytest.approx(0, abs=1e-4)
    assert look.why("1.1", 8, 3, minus=5).total == pytest.approx(row[3].score - row[5].score, abs=1e-4)
    weights = look.pattern("1.1")[8]
    others = sum(float(weights[key]) * row[key].score for key in row if key != 3) / (1 - float(weights[3]))
    assert look.why("1.1", 8, 3, minus="others").total == pytest.approx(row[3].score - others, abs=1e-4)
    strongest = look.why("1.1", 8)
    assert strongest.key.position == int(weights.argmax())


@pytest.mark.parametrize("minus", [None, "others", 3])
def test_arrows_of_a_row_equal_those_that_are_split_alone(
    llama: Scope, monkeypatch: pytest.MonkeyPatch, ids: list[int], minus: int | str | None
) -> None:
    monkeypatch.setattr(score_split, "ARROWS", 5)  # several turns, and a part of one
    look = llama.look(ids)
    for together in look.why_row("1.2", len(ids) - 1, minus=minus):
        alone = look.why("1.2", len(ids) - 1, together.key.position, minus=minus)
        assert together.sentence == alone.sentence
        torch.testing.assert_close(together.pairs, alone.pairs, rtol=0, atol=1e-12)
        for side, whole in (("asked", together.pairs.sum(1)), ("answered", together.pairs.sum(0))):
            shares, others = getattr(together, side), getattr(alone, side)
            assert [share.value for share in shares] == pytest.approx(whole.tolist(), abs=1e-12)
            assert [share.read for share in shares] == [share.read for share in others]


def test_hand_built_induction_is_explained_by_what_was_built_in() -> None:
    """Head 1.0 finds the token after the last copy because 0.0 marked it; every arrow onto such a key says so."""
    sizes = by_hand.HandSizes(vocabulary=30, context=32)
    scope = Scope(NativeModel(by_hand._induction(sizes)))
    ids = [3, 7, 11, 5, 19, 2, 3, 7, 11, 5]
    look = scope.look(ids)
    for query in range(6, 10):
        why = look.why("1.0", query, query - 5)
        best = max(why.answered, key=lambda share: share.value)
        assert best.name == "0.0"
        assert best.read is not None
        assert best.read.place.position == query - 6
        assert "is from head 0.0, which attends from" in why.sentence
        assert "the token before it (100%)" in why.sentence


def test_a_row_takes_one_recorded_pass(llama: Scope, ids: list[int]) -> None:
    look = llama.look(ids)
    with counting_forwards(llama) as ran:
        look.why_row("1.3", -1)
        look.why("1.0", 4, 2)
    assert len(ran) == 1


def test_experts_write_their_own_shares() -> None:
    with headscope.load(FAMILIES["mixtral"]()) as scope:
        look = scope.look(inputs_of("mixtral"))
        names = [share.name for share in look.why("1.0", -1, 2).answered]
    assert [name for name in names if "expert" in name] == [f"mlp 0 expert {number}" for number in range(4)]


def test_softcap_and_sinks_are_terms() -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "head_dim": 8, "attn_logit_softcapping": 2.0}
    with headscope.load(tiny.build("Gemma2Config", "Gemma2ForCausalLM", **sizes)) as scope:
        why = scope.look(inputs_of("gemma2")).why("1.0", -1, 3)
        assert float(why.pairs.sum()) + why.terms["cap"] == pytest.approx(why.total, abs=1e-5)
        assert why.terms["cap"] != 0
    made = tiny.build(
        "GptOssConfig", "GptOssForCausalLM", **{**sizes, "num_local_experts": 2, "num_experts_per_tok": 1}
    )
    with headscope.load(made) as scope:
        look = scope.look(inputs_of("gpt-oss"))
        assert look.why("1.0", -1, 3).sink == pytest.approx(1 - float(look.pattern("1.0")[-1].sum()), abs=1e-6)


def test_clipped_queries_are_rejected_and_the_rest_goes_on() -> None:
    made = tiny.build("OlmoConfig", "OlmoForCausalLM", **{**tiny.SIZES, "clip_qkv": 0.5})
    with headscope.load(made) as scope:
        look = scope.look(inputs_of("olmo"))
        with pytest.raises(ModelError, match=r"1: its k is not a sum .* clipping in model\.layers\.1\.self_attn"):
            look.why("1.0", -1, 2)
        assert look.pattern("1.0").shape == (12, 12)


def test_bad_input_is_refused_with_a_way_out(llama: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    look = llama.look(ids)
    with pytest.raises(InputError, match=r"1.0 at query 4 does not see key 9: it comes later.*visible keys are 0–4"):
        look.why("1.0", 4, 9)
    with pytest.raises(InputError, match=r"key 99: this text has 23 tokens, 0–22"):
        look.why("1.0", 4, 99)
    with llama.edit(headscope.ablate("0.1")):
        edited = llama.look(ids)
    with pytest.raises(InputError, match=r"read under edits.*outside"):
        edited.why("1.0", 4, 2)
    monkeypatch.setattr(why_module, "BUDGET", 2000)
    with pytest.raises(InputError, match=r"take .* GiB for 23 tokens.*at most \d+ tokens"):
        look.why("1.1", 4, 2)


def test_memory_of_one_head_is_writers_by_positions_by_d_head(llama: Scope, ids: list[int]) -> None:
    look: Look = llama.look(ids)
    scores = why_module.explained(look).scores(headscope.Head("1", 0))
    site = llama.shape.sites["1"]
    for side in (scores.q, scores.k):
        assert side.parts.shape == (len(side.writers), len(ids), site.d_head)
        assert side.parts.untyped_storage().nbytes() == side.parts.numel() * side.parts.element_size()


def test_a_text_four_times_as_long_takes_four_times_the_bytes(scope: Scope, ids: list[int]) -> None:
    """What is kept for one head, its keys over the mean of the offsets among it, never grows with the square."""

    def kept(length: int) -> int:
        look: Look = scope.look([ids[at % len(ids)] for at in range(length)])
        look.why("1.0", -1, 2)
        scores = why_module.explained(look).scores(headscope.Head("1", 0))
        moved = [] if scores._moved is None else [scores._moved[1]]
        return sum(each.untyped_storage().nbytes() for each in (scores.q.parts, scores.k.parts, *moved))

    assert kept(40) == 4 * kept(10)


def test_modules_without_the_attention_interface_are_split_too() -> None:
    model = tiny.build("BloomConfig", "BloomForCausalLM", hidden_size=32, n_layer=2, n_head=4, vocab_size=97)
    with headscope.load(model) as scope:
        look = scope.look(inputs_of("bloom"))
        why = look.why(f"{look.sites[1]}.2", -1, 3)
    assert why.error <= 1e-5
    assert why.terms["distance"] != 0
