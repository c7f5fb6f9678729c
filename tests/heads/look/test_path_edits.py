"""Ablated paths against paths cut by hand; patched MLPs and streams against hooks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.heads.explain.families import FAMILIES as MODELS
from tests.heads.explain.families import IDS, inputs_of
from tests.heads.look.path_reference import FAMILIES, logits_without_path

import headscope
from headscope.errors import EditError, InputError
from headscope.scope import Scope


@pytest.mark.parametrize("into", ["q", "k", "v"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_path_equals_one_cut_by_hand(family: str, into: Any) -> None:
    model = MODELS[family]()
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]} if family == "t5" else {"input_ids": IDS}
    side = "decoder." if family == "t5" else ""
    with headscope.load(model) as scope:
        whole = scope.look(inputs_of(family)).logits
        with scope.edit(headscope.ablate(headscope.path(f"{side}0.1", f"{side}1.2", into=into))):
            ours = scope.look(inputs_of(family)).logits
    by_hand = logits_without_path(model, FAMILIES[family], inputs, into, 2)[0]
    assert float((ours - by_hand).abs().max()) <= 1e-5 * float(by_hand.abs().max().clamp(min=1))
    assert float((ours - whole).abs().max()) > 1e-4


def test_held_norms_give_the_split(scope: Scope, ids: list[int]) -> None:
    """With the norm held, the score of one arrow falls by what the writer gave to it."""
    look = scope.look(ids)
    why = look.why("1.2", 9, 4)
    shares = {share.name: share for share in why.answered}
    against = look.why("1.2", 9, 4, minus=2)
    with scope.edit(headscope.ablate(headscope.path("0.1", "1.2", into="k", query=9, key=4, norm="hold"))):
        cut = scope.look(ids)
        z = cut.z("1")[2]
    weights = look.pattern("1.2")[9]
    odds = weights[4] / weights[2]
    column = [each.name for each in why.answered].index("0.1")
    raw = _raw_share(look, "1.2", 9, 4, column)
    fallen = weights.clone()
    fallen[4] = weights[4] * torch.exp(torch.tensor(-raw))
    fallen = fallen / fallen.sum()
    values = _values(look, scope, 2)
    torch.testing.assert_close(z[9], fallen @ values, rtol=1e-4, atol=1e-5)
    assert shares["0.1"].value != 0
    assert float(odds) == pytest.approx(float(torch.exp(torch.tensor(against.total))), rel=1e-4)


def _raw_share(look: Any, head: str, query: int, key: int, column: int) -> float:
    from headscope.heads.explain.why import explained

    scores = explained(look).scores(headscope.Head.parse(head))
    return float(scores.q.parts[:, query].sum(0) @ scores.k.parts[column, key]) * scores.scale


def _values(look: Any, scope: Scope, head: int, site: str = "1") -> torch.Tensor:
    kept = {}

    def keep(site: str, call: Any) -> torch.Tensor:
        kept[site] = call.v
        return headscope.attention.observer.plain(call)  # type: ignore[no-any-return]

    with torch.no_grad():
        scope.model.run(look.prepared.inputs, keep)
    return kept[site][0, head // scope.shape.sites[site].group_size]


def test_only_the_named_query_head_changes_unless_the_group_is_named(llama: Scope, ids: list[int]) -> None:
    group = llama.group("1.2")
    whole = llama.look(ids).z("1")
    with llama.edit(headscope.ablate(headscope.path("0.1", "1.2"))):
        alone = llama.look(ids).z("1")
    with llama.edit(headscope.ablate(headscope.path("0.1", group))):
        together = llama.look(ids).z("1")
    moved = [head for head in range(len(whole)) if not torch.equal(alone[head], whole[head])]
    all_moved = [head for head in range(len(whole)) if not torch.equal(together[head], whole[head])]
    assert moved == [2]
    assert all_moved == [head.head for head in group]


def test_positions_limit_a_cut_to_a_row_and_a_column(scope: Scope, ids: list[int]) -> None:
    whole = scope.look(ids).z("1")
    with scope.edit(headscope.ablate(headscope.path("mlp 0", "1.3", into="k", query=7))):
        row = scope.look(ids).z("1")
    with scope.edit(headscope.ablate(headscope.path("mlp 0", "1.3", into="v", key=7))):
        column = scope.look(ids).z("1")
    assert [i for i in range(len(ids)) if not torch.equal(row[3, i], whole[3, i])] == [7]
    assert next(i for i in range(len(ids)) if not torch.allclose(column[3, i], whole[3, i], atol=1e-6)) == 7


@pytest.mark.parametrize("place", [{}, {"query": 9}, {"key": 4}, {"query": 9, "key": 4}])
def test_a_look_shows_the_pattern_without_the_path(scope: Scope, ids: list[int], place: dict[str, int]) -> None:
    """Pattern, statistics and z of a cut look are of one pass; only the reader's row and column changed."""
    look = scope.look(ids)
    paths = [headscope.path("0.1", "1.2", into="q", **place), headscope.path("mlp 0", "1.2", into="k", **place)]
    with scope.edit(headscope.ablate(*paths)):
        cut = scope.look(ids)
        values = _values(look, scope, 2)
        torch.testing.assert_close(cut.pattern("1.2") @ values, cut.z("1")[2], rtol=1e-4, atol=1e-5)
        strongest = cut.statistics("1").strongest
        assert strongest is not None
        torch.testing.assert_close(strongest.weight[0, 2], cut.pattern("1.2").amax(-1), rtol=1e-4, atol=1e-5)
        moved = (cut.pattern("1.2") - look.pattern("1.2")).abs() > 1e-5
        assert {int(row) for row in moved.any(1).nonzero()} <= ({9} if "query" in place else set(range(len(ids))))
        assert bool(moved.any())
        torch.testing.assert_close(cut.pattern("1.1"), look.pattern("1.1"))


def test_a_position_bias_stays_in_the_pattern_of_a_cut_look() -> None:
    with headscope.load(MODELS["t5"]()) as scope:
        cut = headscope.path("encoder.0.1", "encoder.1.2", into="k", query=5)
        with scope.edit(headscope.ablate(cut)):
            under = scope.look(inputs_of("t5"))
            whole, pattern = under.z("encoder.1"), under.pattern("encoder.1.2")
        values = _values(under, scope, 2, "encoder.1")
        torch.testing.assert_close(pattern @ values, whole[2], rtol=1e-4, atol=1e-5)


def test_all_writers_cut_together_leave_a_zero_query(llama: Scope, ids: list[int]) -> None:
    """Joint cuts are one change of the norm's input: without any writer q is zero and attention even."""
    names = [share.name for share in llama.look(ids).why("1.0", 5, 2).asked]
    with llama.edit(headscope.ablate(*(headscope.path(name, "1.0", into="q", norm="hold") for name in names))):
        z = llama.look(ids).z("1")[0]
    values = _values(llama.look(ids), llama, 0)
    torch.testing.assert_close(z[5], values[:6].mean(0), rtol=1e-3, atol=1e-4)


def test_paths_of_two_edits_are_cut_together(llama: Scope, ids: list[int]) -> None:
    one, other = (headscope.path(writer, "1.2", into="k") for writer in ("0.1", "0.3"))
    with llama.edit(headscope.ablate(one, other)):
        expected = llama.look(ids)
    with llama.edit(headscope.ablate(one)), llama.edit(headscope.ablate(other)):
        found = llama.look(ids)
    with llama.edit(headscope.ablate(other)):
        second = llama.look(ids)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.pattern("1.2"), expected.pattern("1.2"))
    assert float((found.logits - second.logits).abs().max()) > 1e-4


def test_paths_that_meet_in_a_part_of_the_scores_are_refused(llama: Scope, ids: list[int]) -> None:
    everywhere = headscope.path("0.1", "1.2", into="k")
    here = headscope.path("0.3", "1.2", into="k", key=3)
    with (
        pytest.raises(EditError, match=r"two paths into the k of 1\.2 meet"),
        llama.edit(headscope.ablate(everywhere, here)),
    ):
        llama.look(ids)
    apart = headscope.path("0.1", "1.2", into="k", key=4)
    with llama.edit(headscope.ablate(apart, here)):
        llama.look(ids)
    with (
        pytest.raises(EditError, match="ablate all of them the same way"),
        llama.edit(headscope.ablate(apart), headscope.ablate(here, how="mean")),
    ):
        llama.look(ids)


def test_mean_and_resample_take_the_parts_place(llama: Scope, ids: list[int]) -> None:
    other = ids[::-1]
    looks = {}
    for name, edit in {
        "mean": headscope.ablate(headscope.path("0.1", "1.2"), how="mean"),
        "mean elsewhere": headscope.ablate(headscope.path("0.1", "1.2"), how="mean", texts=[other]),
        "resample": headscope.ablate(headscope.path("0.1", "1.2"), how="resample", texts=[other], seed=3),
        "zero": headscope.ablate(headscope.path("0.1", "1.2")),
    }.items():
        with llama.edit(edit):
            looks[name] = llama.look(ids).logits
    whole = llama.look(ids).logits
    different = [*looks.values(), whole]
    for index, one in enumerate(different):
        assert all(not torch.allclose(one, two, atol=1e-6) for two in different[:index])


def test_generation_equals_looking_at_what_was_generated(llama: Scope, ids: list[int]) -> None:
    """With cached keys, step by step, as in one pass over the whole text."""
    cut = headscope.ablate(headscope.path("0.1", "1.2", into="k", norm="recompute"))
    with llama.edit(cut):
        made = llama.generate(ids, n_tokens=5)
        text = ids + [token.id for token in made.tokens]
        again = llama.look(text).logits
    for step, token in enumerate(made.tokens):
        assert int(again[len(ids) - 1 + step].argmax()) == token.id
        expected = again[len(ids) - 1 + step].softmax(-1)
        assert made.steps[step].model.max() == pytest.approx(float(expected.max()), abs=1e-4)


def test_importance_is_measured_under_the_cut(llama: Scope, ids: list[int]) -> None:
    plain = {each.head: each.loss.mean for each in llama.importance([ids])}
    with llama.edit(headscope.ablate(headscope.path("0.1", "1.2", into="v"))):
        cut = {each.head: each.loss.mean for each in llama.importance([ids])}
        whole = llama.look(ids).logits
        with llama.edit(headscope.ablate("0.3")):
            without = llama.look(ids).logits
        with pytest.raises(InputError, match="how='exact'"):
            llama.importance([ids], how="gradient")
    target = torch.tensor(ids[1:])
    losses = [torch.nn.functional.cross_entropy(logits[:-1], target) for logits in (without, whole)]
    assert cut[headscope.Head("0", 3)] == pytest.approx(float(losses[0] - losses[1]), abs=1e-5)
    assert cut != plain


def test_bad_paths_are_refused(llama: Scope, ids: list[int]) -> None:
    cut = headscope.ablate(headscope.path("1.1", "1.2"))
    with pytest.raises(EditError, match=r"1\.1 does not write into the k of 1\.2; embedding, 0\.0, .* do"):
        cut.bind(llama.model)
    with pytest.raises(InputError, match="into='z'"):
        headscope.path("0.1", "1.2", into="z")
    with pytest.raises(EditError, match="positions count from 0"):
        headscope.path("0.1", "1.2", key=-1)
    with pytest.raises(EditError, match="resample draws from other texts"):
        headscope.ablate(headscope.path("0.1", "1.2"), how="resample")
    with pytest.raises(EditError, match="heads or paths"):
        headscope.ablate("0.1", headscope.path("0.1", "1.2"))


def test_patched_mlp_and_stream_equal_hooks(llama: Scope, ids: list[int]) -> None:
    other = llama.look(ids[::-1])
    layers: Any = llama.model.model.model.layers  # type: ignore[union-attr]
    kept: dict[str, torch.Tensor] = {}
    hooks = [
        layers[1].mlp.register_forward_hook(lambda m, a, o: kept.update(mlp=o)),
        layers[1].register_forward_pre_hook(lambda m, a: kept.update(stream=a[0])),
    ]
    with torch.no_grad():
        llama.model.run(other.prepared.inputs)
    for hook in hooks:
        hook.remove()

    def at(value: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        value = value.clone()
        value[:, [3, 8]] = new[:, [3, 8]]
        return value

    mlp, stream = kept["mlp"], kept["stream"]
    hook = layers[1].mlp.register_forward_hook(lambda m, a, o: at(o, mlp))
    by_hand_mlp = llama.look(ids).logits
    hook.remove()
    hook = layers[1].register_forward_pre_hook(lambda m, a: (at(a[0], stream), *a[1:]))
    by_hand_stream = llama.look(ids).logits
    hook.remove()
    with llama.edit(headscope.patch("mlp_out 1", [3, 8], other)):
        torch.testing.assert_close(llama.look(ids).logits, by_hand_mlp)
    with llama.edit(headscope.patch("resid_pre 1", [3, 8], other)):
        torch.testing.assert_close(llama.look(ids).logits, by_hand_stream)
    with pytest.raises(EditError, match=r"'mlp_out 7': this model has no such layer or site; it has 0, 1"):
        headscope.patch("mlp_out 7", 3, other).bind(llama.model)
