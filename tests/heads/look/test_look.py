"""A look gives the model's own numbers: logits, patterns, statistics, and head parts that add up."""

import gc
import weakref

import pytest
import torch
import transformers
from tests.heads.conftest import counting_forwards

import headscope
from headscope.attention import reference
from headscope.errors import EditError, HeadNameError, InputError
from headscope.heads.look import activation_cache as passes_module
from headscope.heads.look import look as look_module
from headscope.heads.questions.standard_questions import standard_questions
from headscope.scope import Scope


def eager_attentions(scope: Scope, ids: list[int]) -> list[torch.Tensor]:
    """transformers' own weights, from a copy of the model with its own eager attention."""
    import copy

    model = copy.deepcopy(scope.model.model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return list(model(torch.tensor([ids]), output_attentions=True).attentions)


def test_patterns_are_the_models_own(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    for layer, theirs in enumerate(eager_attentions(scope, ids)):
        for head in range(theirs.shape[1]):
            torch.testing.assert_close(look.pattern(f"{layer}.{head}"), theirs[0, head], atol=2e-6, rtol=1e-4)


def test_statistics_are_those_of_the_pattern(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    questions = standard_questions(torch.tensor([ids]))
    for site in look.sites:
        rows = look.statistics(site)
        for head in range(rows.logsumexp.shape[1]):
            pattern = look.pattern(f"{site}.{head}").double()
            ours = reference.row_statistics(pattern)
            torch.testing.assert_close(rows.entropy[0, head].double(), ours.entropy, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(rows.distance.mean[0, head].double(), ours.distance_mean, atol=1e-4, rtol=1e-4)
            assert rows.strongest.key[0, head].tolist() == ours.strongest_key.tolist()
            for name, q in questions.items():
                mass = reference.mass(pattern, q.query[0], q.key[0], q.exclude_self)
                torch.testing.assert_close(rows.mass[name][0, head].double(), mass, atol=1e-6, rtol=1e-4)


def test_past_its_budget_a_look_computes_again_and_says_the_same(
    llama: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = llama.look(ids)
    monkeypatch.setattr(passes_module, "BUDGET", 0)
    lean = llama.look(ids)
    assert lean.cache.sites["2"].kept is None
    torch.testing.assert_close(lean.pattern("2.1"), kept.pattern("2.1"))
    torch.testing.assert_close(lean.z("2"), kept.z("2"))


@pytest.mark.parametrize(("states", "layers_run"), [(0, 3), (1, 1), (3, 1)])
def test_past_its_budget_a_look_begins_again_at_the_nearest_layer_it_kept(
    llama: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch, states: int, layers_run: int
) -> None:
    """A state is 23 tokens of 48 numbers; with room for one, it is the one before the last layer."""
    kept = llama.look(ids)
    monkeypatch.setattr(passes_module, "BUDGET", states * len(ids) * 48 * 4)
    lean = llama.look(ids)
    assert all(site.kept is None for site in lean.cache.sites.values())
    ran: list[int] = []
    layers = llama.model.model.model.layers
    hooks = [layer.mlp.register_forward_hook(lambda *_, n=n: ran.append(n)) for n, layer in enumerate(layers)]
    torch.testing.assert_close(lean.pattern("2.1"), kept.pattern("2.1"))
    for hook in hooks:
        hook.remove()
    assert len(ran) == layers_run - 1, "the layer itself is left before its MLP"


def test_past_its_budget_contributions_are_the_same(
    scope: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = scope.look(ids)
    monkeypatch.setattr(passes_module, "BUDGET", 0)
    lean = scope.look(ids)
    for position in (4, 9):
        ours, theirs = lean.contributions(position), kept.contributions(position)
        assert ours.position == position
        for site in theirs.sites:
            torch.testing.assert_close(ours.sites[site].parts, theirs.sites[site].parts)
            assert ours.sites[site].error < 1e-5
    assert lean.logit_attribution(11, minus=4, position=9).heads == pytest.approx(
        kept.logit_attribution(11, minus=4, position=9).heads, rel=1e-3, abs=1e-6
    )


def test_contributions_come_from_the_pass_that_was_observed_and_shares_from_one_more(
    scope: Scope, ids: list[int]
) -> None:
    look = scope.look(ids)
    with counting_forwards(scope) as ran:
        parts = {place: look.contributions(place) for place in (0, 7, -1)}
    assert not ran
    with counting_forwards(scope) as ran:
        look.logit_attribution(11, minus=4, position=9)
        look.logit_attribution(12, position=3)
    assert len(ran) == 1
    made: dict[str, Any] = {}
    hooks = [
        scope.model.output_matrix(site).register_forward_hook(lambda _, x, y, site=site: made.update({site: (x[0], y)}))
        for site in scope.shape.sites
    ]
    scope.model.run(look.prepared.inputs)
    for hook in hooks:
        hook.remove()
    for place, found in parts.items():
        for site, part in found.sites.items():
            torch.testing.assert_close(part.z.flatten(), made[site][0][0, place])
            torch.testing.assert_close(part.output, made[site][1][0, place])


def test_an_edits_contributions_cost_no_more_pass(scope: Scope, ids: list[int]) -> None:
    with scope.edit(headscope.ablate("1.2")):
        look = scope.look(ids)
    with counting_forwards(scope) as ran:
        found = look.contributions(9).sites["1"]
        look.contributions(3)
    assert not ran
    assert found.parts[2].abs().max() == 0 < found.parts[1].abs().max()


def test_behind_a_norm_z_is_not_taken_for_what_the_output_weight_reads(ids: list[int]) -> None:
    """BitNet has a norm over all heads before W_O: its input is read off the recorded pass."""
    sizes = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3, "intermediate_size": 64}
    torch.manual_seed(0)
    config = transformers.BitNetConfig(**sizes, num_hidden_layers=2, vocab_size=97, pad_token_id=0)
    with headscope.load(transformers.BitNetForCausalLM(config)) as scope:
        look = scope.look(ids)
        with counting_forwards(scope) as ran:
            found = look.contributions(9).sites["1"]
            look.contributions(3)
        assert len(ran) == 1
        assert found.kind == "mixed"
        assert found.error < 1e-5
        assert not torch.allclose(found.z, look.z("1")[:, 9])


def test_an_edited_delivery_is_what_goes_through_the_output_weight(scope: Scope, ids: list[int]) -> None:
    with scope.edit(headscope.scale("0.1", 3.0)):
        look = scope.look(ids)
    own = scope.look(ids)
    look.statistics("0")
    with counting_forwards(scope) as ran:
        scaled, plain = (seen.contributions(9).sites["0"] for seen in (look, own))
    assert not ran
    torch.testing.assert_close(scaled.parts[1], 3 * plain.parts[1])
    assert scaled.error < 1e-5


def test_a_site_is_observed_when_somebody_asks_about_it(scope: Scope, ids: list[int]) -> None:
    with scope.edit(headscope.ablate("1.2")):
        edited = scope.look(ids)
        assert edited.predictions()
        assert edited.sites == tuple(scope.shape.sites)
        assert edited.z("1")[2].abs().max() == 0
        assert not edited.cache.sites
        edited.pattern("1.1")
        assert not edited.cache.sites
        edited.statistics("1")
        assert list(edited.cache.sites) == ["1"]
    torch.testing.assert_close(edited.pattern("1.2"), scope.look(ids).pattern("1.2"))


def test_head_parts_and_the_bias_make_the_output(scope: Scope, ids: list[int]) -> None:
    parts = scope.look(ids).contributions(7)
    assert list(parts.sites) == list(scope.shape.sites)
    for site in parts.sites.values():
        assert site.kind == "exact"
        torch.testing.assert_close(site.parts.sum(0) + site.bias, site.output, atol=1e-5, rtol=1e-4)
        assert site.error < 1e-5


def test_logit_shares_of_all_heads_and_the_rest_make_the_logit(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    shares = look.logit_attribution(11, position=9)
    assert shares.total == pytest.approx(float(look.logits[9, 11]))
    assert sum(shares.heads.values()) + shares.rest == pytest.approx(shares.total)
    assert [abs(share) for _, share in shares.ranked()] == sorted(map(abs, shares.heads.values()), reverse=True)


def test_a_share_is_what_removing_the_part_from_the_residual_does_at_frozen_norm(scope: Scope, ids: list[int]) -> None:
    """Independently: the norm written out for this model, its scale frozen, applied to one head's part."""
    look = scope.look(ids)
    model = scope.model.model
    residual = look.recorded.final(9)
    part = look.contributions(9).part("1.3")
    if hasattr(model, "transformer"):
        norm = model.transformer.ln_f
        scale = (residual.var(unbiased=False) + norm.eps).rsqrt()
        written = (part - part.mean()) * scale * norm.weight
    else:
        norm = model.model.norm
        written = part * (residual.square().mean() + norm.variance_epsilon).rsqrt() * norm.weight
    expected = float((written @ (model.lm_head.weight[11] - model.lm_head.weight[4])).detach())
    look_share = look.logit_attribution(11, minus=4, position=9).heads
    from headscope.names import Head

    assert look_share[Head("1", 3)] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_logits_are_the_models_own(scope: Scope, ids: list[int]) -> None:
    import copy

    plain = copy.deepcopy(scope.model.model)
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = plain(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(scope.look(ids).logits, theirs, atol=1e-4, rtol=1e-4)


def test_a_head_that_is_not_there_is_named_with_those_that_are(llama: Scope, ids: list[int]) -> None:
    look = llama.look(ids)
    with pytest.raises(HeadNameError, match=r"13\.2: this model has layers 0–2"):
        look.pattern("13.2")
    with pytest.raises(HeadNameError, match=r"1\.9: site 1 has heads 0–5"):
        look.pattern("1.9")
    with pytest.raises(HeadNameError, match="'five' is not a head name"):
        look.pattern("five")


def test_a_pattern_too_large_to_hold_is_refused_with_the_way_out(
    llama: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "LARGEST_PATTERN", 100)
    with pytest.raises(InputError, match=r"has 23×23 cells; read a part of it with weights"):
        llama.look(ids).pattern("0.0")


def test_a_norm_after_w_o_is_held_at_this_texts_statistics(ids: list[int]) -> None:
    """Gemma 2 norms the attention output before adding it: the last layer's shares and the MLP's make the logit."""
    import transformers

    import headscope
    from headscope.names import Head

    torch.manual_seed(3)
    config = transformers.Gemma2Config(
        vocab_size=97, hidden_size=48, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, final_logit_softcapping=None, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.Gemma2ForCausalLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with headscope.load(model) as scope:
        look = scope.look(ids)
        part = look.contributions(9).sites["0"]
        share = look.logit_attribution(11, position=9)
        layer, final = model.model.layers[0], model.model.norm
        residual = look.recorded.final(9)
        after, end = layer.post_attention_layernorm, final
        with torch.no_grad():
            scale = (part.output.square().mean() + after.eps).rsqrt() * (1 + after.weight)
            scale = scale * (residual.square().mean() + end.eps).rsqrt() * (1 + end.weight)
            expected = (part.parts * scale) @ model.lm_head.weight[11]
    for index in range(4):
        assert share.heads[Head("0", index)] == pytest.approx(float(expected[index]), rel=1e-3, abs=1e-5)
    assert "after W_O" in share.note


def swin() -> transformers.PreTrainedModel:
    """16 × 16 patches in windows of 4 × 4; half as many on each side in the second stage."""
    torch.manual_seed(0)
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    model = transformers.SwinForImageClassification(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def test_of_a_picture_cut_into_windows_a_look_says_that_it_shows_the_first() -> None:
    picture = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    with headscope.load(swin()) as scope:
        look = scope.look(picture)
        assert look.n_windows == {"0.0": 16, "0.1": 16, "1.0": 4, "1.1": 4}
        assert "of 4 sites only the first window is shown" in repr(look)
        assert {token.text for site in look.sites for token in look.query_tokens(site)} == {
            f"window 1 [{place}]" for place in range(16)
        }
        note = next(note for note in scope.notes if "windows" in note)
        assert note.startswith("0.0, 0.1, 1.0, 1.1 split their input into windows (tiles, frames)")
        assert note in str(scope.model.self_check)
        for site in look.sites:
            entropy = look.statistics(site).entropy
            assert entropy is not None
            for head in (0, 1):
                rows = reference.row_statistics(look.pattern(f"{site}.{head}").double())
                torch.testing.assert_close(entropy[0, head].double(), rows.entropy, atol=1e-5, rtol=1e-4)
            assert not torch.allclose(entropy[0], entropy[1]), "windows differ, so it matters which is shown"


def test_the_first_window_is_not_patched_into_all_of_them() -> None:
    with headscope.load(swin()) as scope:
        look = scope.look(torch.rand(1, 3, 32, 32))
        with (
            pytest.raises(EditError, match=r"patch\(\) at 0\.1: a look holds only the first of their windows"),
            scope.edit(headscope.patch("0.1.0", 2, look)),
        ):
            pass


def test_a_look_that_is_not_held_is_gone_at_once(scope: Scope, ids: list[int]) -> None:
    """Not when the garbage collector comes: its tensors may be a good part of a GPU."""
    gc.disable()
    try:
        for asked in (False, True):
            look = scope.look(ids)
            if asked:
                look.mean_answers(look.sites[0])
            held = weakref.ref(look)
            del look
            assert held() is None
    finally:
        gc.enable()


def test_mean_answers_in_a_window_are_over_the_rows_that_see_an_answer() -> None:
    config = transformers.MistralConfig(
        vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=3,
    )  # fmt: skip
    ids = [5, 9, 5, 7, 9, 5, 5, 7, 11]
    with headscope.load(transformers.MistralForCausalLM(config).eval()) as scope:
        look = scope.look(ids)
    asked = {
        "first": [(row, [0]) for row in (1, 2)],
        "duplicate": [(2, [0]), (6, [5])],
        "previous": [(row, [row - 1]) for row in range(1, 9)],
    }
    for name, rows in asked.items():
        means = torch.stack([look.patterns("0")[:, row, keys].sum(-1) for row, keys in rows]).mean(0)
        torch.testing.assert_close(look.mean_answers("0")[name], means, atol=1e-6, rtol=1e-5)
    same = headscope.LabelRule("same", *([lambda tokens: [token.id for token in tokens]] * 2), exclude_self=True)
    own = torch.tensor([look.ask(same)[headscope.Head("0", head)] for head in range(4)])
    torch.testing.assert_close(own, look.mean_answers("0")["duplicate"], atol=1e-6, rtol=1e-5)
