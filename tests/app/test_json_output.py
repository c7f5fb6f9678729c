"""``--json`` prints the look's own numbers as valid JSON."""

from __future__ import annotations

import json

import pytest
import torch

from headscope import ablate
from headscope.app import json_output

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def test_look_json_has_every_head(look, scope):
    found = json.loads(json.dumps(json_output.look_json(look), allow_nan=False))
    assert (found["model"], len(found["tokens"])) == (scope.shape.name, 15)
    assert list(found["heads"]) == [str(head) for head in scope.shape.heads()]
    one = found["heads"]["1.4"]
    assert one["previous"] == pytest.approx(float(look.mean_answers("1")["previous"][4]))
    assert one["entropy_nats"] == pytest.approx(float(look.statistics("1").entropy[0, 4, 1:].mean()))
    assert one["distance"] == pytest.approx(float(look.statistics("1").distance.mean[0, 4, 1:].mean()))
    assert found["predictions"][0]["id"] == int(look.logits[-1].argmax())
    assert "pattern" not in found


def test_look_json_of_a_head_has_its_pattern(look):
    torch.testing.assert_close(torch.tensor(json_output.look_json(look, "0.3")["pattern"]), look.pattern("0.3"))


def test_ablation_json_has_the_likely_tokens_before_and_after(look, scope):
    with scope.edit(ablate("0.1", "1.2", how="zero")):
        without = scope.look(TEXT)
    found = json_output.ablation_json(look, without, ["0.1", "1.2"])
    was, now = (each.logits[-1].double().softmax(-1) for each in (look, without))
    assert found["kl_nats"] == pytest.approx(float((was * (was / now).log()).sum()), abs=1e-5)
    assert found["kl_nats"] > 0
    shown = {entry["token"]: entry for entry in found["next"]}
    for each in (look, without):
        best = each.predictions(count=1)[0].token
        assert shown[best.text]["with"] == pytest.approx(float(was[best.id]), abs=1e-6)
        assert shown[best.text]["without"] == pytest.approx(float(now[best.id]), abs=1e-6)
    assert len(shown) == len(found["next"]) <= 9, "no token twice"


def test_generated_json_has_the_tokens_probabilities(scope):
    made = scope.generate("the old lamp", 4)
    found = json_output.generated_json("the old lamp", made)
    assert [token["id"] for token in found["tokens"]] == [token.id for token in made.tokens]
    assert all(0 < token["probability"] <= 1 for token in found["tokens"])
    assert found["text"] == made.text


def test_model_json_has_the_shape_and_the_self_check(scope):
    found = json.loads(json.dumps(json_output.model_json(scope)))
    assert (found["heads"], found["d_model"], found["context"]) == (12, 48, 1280)
    assert [(site["name"], site["n_heads"], site["n_kv_heads"]) for site in found["sites"]] == [
        ("0", 6, 3),
        ("1", 6, 3),
    ]
    assert found["check"] == str(scope.model.self_check)
