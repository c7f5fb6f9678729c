"""What ``--json`` prints is the look's own numbers, and JSON."""

from __future__ import annotations

import json

import pytest
import torch

from headscope import ablate
from headscope.app import json_output
from headscope.names import Head

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def test_a_look_is_told_head_by_head(look, scope):
    told = json.loads(json.dumps(json_output.look_json(look), allow_nan=False))
    assert (told["model"], len(told["tokens"])) == (scope.shape.name, 15)
    assert list(told["heads"]) == [str(head) for head in scope.shape.heads()]
    one = told["heads"]["1.4"]
    assert one["previous"] == pytest.approx(float(look.mean_answers("1")["previous"][4]))
    assert one["entropy_nats"] == pytest.approx(float(look.statistics("1").entropy[0, 4].mean()))
    assert one["distance"] == pytest.approx(float(look.statistics("1").distance.mean[0, 4].mean()))
    assert told["predictions"][0]["id"] == int(look.logits[-1].argmax())
    assert "pattern" not in told


def test_a_named_head_comes_with_its_pattern(look):
    torch.testing.assert_close(torch.tensor(json_output.look_json(look, "0.3")["pattern"]), look.pattern("0.3"))


def test_a_question_that_cannot_be_asked_is_left_out(scope):
    told = json_output.look_json(scope.look("the old lamp"))
    assert "induction" not in told["heads"]["0.0"]
    assert "previous" in told["heads"]["0.0"]


def test_a_change_holds_what_was_likely_before_and_after(look, scope):
    with scope.edit(ablate("0.1", "1.2", how="zero")):
        without = scope.look(TEXT)
    told = json_output.ablation_json(look, without, ["0.1", "1.2"])
    was, now = (each.logits[-1].double().softmax(-1) for each in (look, without))
    assert told["kl_nats"] == pytest.approx(float((was * (was / now).log()).sum()), abs=1e-5)
    assert told["kl_nats"] > 0
    shown = {entry["token"]: entry for entry in told["next"]}
    for each in (look, without):
        best = each.predictions(count=1)[0].token
        assert shown[best.text]["with"] == pytest.approx(float(was[best.id]), abs=1e-6)
        assert shown[best.text]["without"] == pytest.approx(float(now[best.id]), abs=1e-6)
    assert len(shown) == len(told["next"]) <= 9, "none is told twice"


def test_nothing_changed_is_a_distance_of_nothing(look):
    assert json_output.ablation_json(look, look, [])["kl_nats"] == pytest.approx(0.0, abs=1e-7)


def test_what_was_written_comes_with_its_chances(scope):
    made = scope.generate("the old lamp", 4)
    told = json_output.generated_json("the old lamp", made)
    assert [token["id"] for token in told["tokens"]] == [token.id for token in made.tokens]
    assert all(0 < token["probability"] <= 1 for token in told["tokens"])
    assert told["text"] == made.text


def test_own_questions_stand_under_a_name_of_their_own():
    assert json_output.questions_json({}) == {}
    told = json_output.questions_json({"verbs": {Head("0", 1): 0.5}})
    assert told == {"own_questions": {"verbs": {"0.1": 0.5}}}


def test_a_model_is_told_with_its_shape_and_its_check(scope):
    told = json.loads(json.dumps(json_output.model_json(scope)))
    assert (told["heads"], told["d_model"], told["context"]) == (12, 48, 1280)
    assert [(site["name"], site["n_heads"], site["n_kv_heads"]) for site in told["sites"]] == [("0", 6, 3), ("1", 6, 3)]
    assert told["check"] == str(scope.model.self_check)
