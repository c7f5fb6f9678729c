"""A cut path: the true effect against an edited pass, the predicted one against the same sums written out."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.heads.explain.families import FAMILIES, inputs_of
from tests.models import tiny

import headscope
from headscope.errors import InputError, ModelError
from headscope.heads.explain.path_effect import path_effect
from headscope.models.structure.recorded_pass import logit_direction
from headscope.scope import Scope


@pytest.mark.parametrize(
    ("family", "into"),
    [("gpt2", "q"), ("gpt2", "v"), *((each, "k") for each in ("llama", "gemma3", "qwen3", "neox", "mixtral"))],
)
def test_the_true_effect_is_that_of_the_edit(family: str, into: str) -> None:
    with headscope.load(FAMILIES[family]()) as scope:
        look = scope.look(inputs_of(family))
        query = len(look.tokens) - 1
        cut = headscope.path("0.1", "1.0", into=into, query=query, key=2)
        found = path_effect(look, cut, token=7, minus=9)
        with scope.edit(headscope.ablate(cut)):
            logits = scope.look(inputs_of(family)).logits[-1].double()
        assert found.logit.true == pytest.approx(float(logits[7] - logits[9]), abs=1e-5)
        assert found.probability.true == pytest.approx(float(logits.softmax(-1)[7]), abs=1e-6)
        assert found.logit.true_change != 0
        assert sum(found.answers.values()) == pytest.approx(found.logit.true_change, abs=2e-4)


def test_the_predicted_weight_is_the_pattern_without_the_writers_pairs(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    query, key = len(ids) - 1, 3
    why = look.why("1.2", query, key)
    row = look.weights("1.2", slice(query, query + 1))[0].double()
    found = path_effect(look, headscope.path("0.1", "1.2", into="k", query=query, key=key))
    from headscope.heads.explain.why import explained

    scores = explained(look).scores(headscope.Head("1", 2))
    name = [writer.name for writer in scores.k.writers].index("0.1")
    lost = float(scores.q.parts[:, query].sum(0) @ scores.k.parts[name, key]) * scores.scale
    fallen = row.clone()
    fallen[key] *= torch.exp(torch.tensor(-lost, dtype=torch.float64))
    assert found.weight is not None
    assert found.weight.as_is == pytest.approx(why.weight, abs=1e-6)
    assert found.weight.predicted == pytest.approx(float(fallen[key] / fallen.sum()), abs=1e-6)


def test_a_logit_is_predicted_from_the_row_with_its_norm_computed_again(scope: Scope, ids: list[int]) -> None:
    """The predicted change of the logit is the change of z in the edited pass, on the direct way."""
    look = scope.look(ids)
    query, reader = len(ids) - 1, headscope.Head("1", 2)
    cut = headscope.path("mlp 0", str(reader), into="k", query=query, key=3)
    found = path_effect(look, cut, token=5)
    with scope.edit(headscope.ablate(cut)):
        changed = scope.look(ids).z("1")[2, query] - look.z("1")[2, query]
    residual = look.recorded.final(query)
    direction = logit_direction(look.model, residual, [5])
    written = changed @ look.model.output_weight("1").weight[2].detach()
    assert found.logit.predicted_change == pytest.approx(float(written @ direction), abs=1e-5)
    held = path_effect(look, dataclasses.replace(cut, norm="hold"), token=5)
    assert held.weight is not None
    assert found.weight is not None
    assert held.weight.true == held.weight.predicted == found.weight.predicted
    assert abs(found.weight.true - found.weight.predicted) > 1e-6


def test_a_path_into_values_is_predicted_by_its_share_of_the_logit(scope: Scope, ids: list[int]) -> None:
    """With pattern and norm held, what a writer gave to a value is a term of the logit, which `trace` shows."""
    look = scope.look(ids)
    query = len(ids) - 1
    traced = look.trace(5, floor=0.005)
    head = next(step for step in traced.steps if step.kind == "head" and step.name.startswith("1.") and step.reads)
    read = next(each for each in head.reads if each.values)
    writer = next(each for each in read.values if each.kind != "reader")
    cut = headscope.path(writer.name, head.name, into="v", query=query, key=read.place.position, norm="hold")
    assert path_effect(look, cut, token=5).logit.predicted_change == pytest.approx(-writer.share, abs=1e-5)


def test_bad_paths_are_rejected_with_a_clear_message(scope: Scope, ids: list[int]) -> None:
    look = scope.look(ids)
    with pytest.raises(InputError, match="has no query"):
        path_effect(look, headscope.path("0.1", "1.2"))
    with pytest.raises(InputError, match=r"query 99 and key 0; this text has queries 0–"):
        path_effect(look, headscope.path("0.1", "1.2", query=99, key=0))
    with pytest.raises(ModelError, match=r"1\.1 does not write into the k of 1\.2; .*0\.1"):
        path_effect(look, headscope.path("1.1", "1.2", query=3, key=0))


def test_a_norm_on_the_stream_is_held_on_the_way_to_the_logits() -> None:
    """OPT-350M's form: the last layer's own norm is the final one, and its β is all that no writer gives."""
    with headscope.load(FAMILIES["opt"]()) as scope:
        look = scope.look(inputs_of("opt"))
        end, cut = scope.model.unembedding(), headscope.path("0.1", "1.0", into="k", query=3, key=2)
        assert end.norm is not None
        shift = float((end.norm.bias @ (end.weight[5] - end.weight[6])).detach())
        parts = look.recorded.attribution(5, 6, 3)
        assert sum(parts.values()) + shift == pytest.approx(float(look.logits[3, 5] - look.logits[3, 6]), abs=1e-5)
        found = path_effect(look, cut, token=5, position=3)
        with scope.edit(headscope.ablate(cut)):
            assert found.logit.true == pytest.approx(float(scope.look(inputs_of("opt")).logits[3, 5]), abs=1e-5)


def test_a_model_that_caps_its_logits_is_refused_with_what_still_works(ids: list[int]) -> None:
    sizes = {**tiny.SIZES, "num_key_value_heads": 2, "head_dim": 8, "final_logit_softcapping": 3.0}
    with headscope.load(tiny.build("Gemma2Config", "Gemma2ForCausalLM", **sizes), tiny.tokenizer()) as scope:
        look = scope.look(ids)
        with pytest.raises(ModelError, match=r"caps its logits, .* scope\.edit\(ablate\(path\(…\)\)\)"):
            path_effect(look, headscope.path("0.1", "1.0", query=3, key=2))


def test_a_path_into_a_whole_group_is_cut_for_all_of_its_heads(llama: Scope, ids: list[int]) -> None:
    """One KV head serves two query heads here: each is predicted by itself, and the true effect is that of the edit."""
    look = llama.look(ids)
    query, group = len(ids) - 1, look.why("1.1", -1, 3).group
    assert [str(head) for head in group] == ["1.0", "1.1"]
    single = [path_effect(look, headscope.path("0.1", head, query=query, key=3), token=7) for head in group]
    cut = headscope.path("0.1", group, query=query, key=3)
    found = path_effect(look, cut, token=7)
    predicted = sum(each.logit.predicted_change for each in single)
    assert found.logit.predicted_change == pytest.approx(predicted, abs=1e-5)
    assert found.weight == single[0].weight
    with llama.edit(headscope.ablate(cut)):
        assert found.logit.true == pytest.approx(float(llama.look(ids).logits[-1, 7]), abs=1e-5)
    assert found.logit.true_change != pytest.approx(single[0].logit.true_change, abs=1e-5)
    with pytest.raises(InputError, match=r"2 readers of different sites.*why\.group"):
        path_effect(look, headscope.path("embedding", ("0.1", "1.1"), query=query, key=3))
