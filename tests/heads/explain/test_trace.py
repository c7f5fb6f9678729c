"""Predictions traced back: sums at every level against references, and what is refused."""

from __future__ import annotations

import pytest
import torch
from tests.heads.explain.families import FAMILIES, inputs_of
from tests.lab import by_hand

import headscope
from headscope.errors import InputError
from headscope.heads.explain.trace import Step, TracedPrediction
from headscope.models.native import NativeModel
from headscope.scope import Scope


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3", "qwen3", "t5", "neox", "mixtral"])
def test_shares_add_up_to_the_logit_at_every_level(family: str) -> None:
    with headscope.load(FAMILIES[family]()) as scope:
        look = scope.look(inputs_of(family))
        trace = look.trace(7, minus=9, floor=0.1)
        assert trace.total == pytest.approx(float(look.logits[-1, 7] - look.logits[-1, 9]), abs=1e-5)
        total = sum(step.share for step in trace.steps) + trace.left_out.sum + trace.constant
        assert total == pytest.approx(trace.total, abs=1e-4)
        _check(trace.steps)


def _check(steps: tuple[Step, ...]) -> None:
    for step in steps:
        if step.reads:
            read = sum(each.share for each in step.reads) + step.left_out.sum
            assert read == pytest.approx(step.share, abs=1e-4)
        for each in () if step.rests else step.reads:
            written = sum(value.share for value in each.values) + each.left_out.sum
            assert written == pytest.approx(each.share, abs=1e-4)
            _check(each.values)


def test_heads_have_the_shares_of_logit_attribution(
    scope: Scope, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = scope.look(ids)
    expected = look.logit_attribution(5, minus=8).heads
    monkeypatch.setattr("headscope.heads.explain.trace.DEPTH", 0)  # the top level alone
    trace = look.trace(5, minus=8, floor=0.001)
    found = {step.name: step.share for step in trace.steps if step.kind == "head"}
    assert found == pytest.approx({name: expected[headscope.Head.parse(name)] for name in found}, abs=1e-4)
    assert len(found) > len(expected) / 2
    assert trace.constant == pytest.approx(_constant(look, scope), abs=1e-4)


def _constant(look: object, scope: Scope) -> float:
    unembedding = scope.model.unembedding()
    beta = getattr(unembedding.norm, "bias", None)
    direction = (unembedding.weight[5] - unembedding.weight[8]).detach()
    return 0.0 if beta is None else float(beta.detach() @ direction)


def test_hand_built_induction_is_traced_to_the_token_that_was_copied() -> None:
    scope = Scope(NativeModel(by_hand._induction(by_hand.HandSizes(vocabulary=30, context=32))))
    ids = [3, 7, 11, 5, 19, 2, 3, 7]
    trace: TracedPrediction = scope.look(ids).trace(11)
    first = trace.steps[0]
    assert (first.name, first.rests) == ("1.0", False)
    assert [read.place.position for read in first.reads] == [2]
    assert first.reads[0].answered[0].name == "0.0"
    assert first.reads[0].values[0].name == "embedding"
    assert first.reads[0].values[0].share == pytest.approx(first.share, rel=1e-3)
    assert "1.0" in trace.sentence
    assert "0.0" in trace.sentence
    made = trace.to_dict()
    assert made["steps"][0]["reads"][0]["place"]["position"] == 2
    assert str(trace).startswith(trace.sentence)


def test_a_head_that_only_rests_on_the_sink_is_one_line() -> None:
    scope = Scope(NativeModel(by_hand._first_token(by_hand.HandSizes(vocabulary=30, context=32))))
    look = scope.look([3, 7, 11, 5])
    best = int(look.logits[-1].argmax())
    trace = look.trace(best)
    assert trace.steps[0].rests
    assert len(str(trace).splitlines()) <= 5


def test_bad_input_is_refused(llama: Scope, ids: list[int]) -> None:
    look = llama.look(ids)
    with pytest.raises(InputError, match="floor=0"):
        look.trace(5, floor=0.0)
    with llama.edit(headscope.ablate("0.1")):
        edited = llama.look(ids)
    with pytest.raises(InputError, match="read under edits"):
        edited.trace(5)
    model = FAMILIES["bert"]()
    with headscope.load(model.bert) as scope:  # type: ignore[operator]
        with torch.no_grad():
            bare = scope.look(inputs_of("bert"))
        with pytest.raises(InputError, match="predicts no tokens"):
            bare.trace(5)
