"""Lab routes: sentences, trained heads, the worked example, stored results, and refusals."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import torch
from tests.lab.crafted import trained_heads

from headscope.app.pages.one_or_many import ResultsResponse
from headscope.app.wire import unpack
from headscope.lab.teach.one_or_many import conclusions, stored_results
from headscope.lab.teach.puzzle import named
from headscope.lab.teach.target_patterns import SENTENCE
from headscope.lab.teach.worked_example import WorkedExample


def test_the_first_sentence_has_four_targets(client):
    card = client.post("/api/lab/sentence", json={}).json()
    assert card["sentence"] == SENTENCE
    assert [target["name"] for target in card["targets"]][2] == "Pronoun to antecedent"
    assert card["targets"][2]["arrows"] == [[8, 2]]


def test_the_user_s_own_sentence_gets_the_previous_token_target_and_no_guess_without_a_verb(client):
    card = client.post("/api/lab/sentence", json={"sentence": "a dog, a cat"}).json()
    assert card["words"] == ["a", "dog", ",", "a", "cat"]
    *guessed, previous = (target["arrows"] for target in card["targets"])
    assert previous == [[1, 0], [2, 1], [3, 2], [4, 3]]
    assert guessed == [[], [], []]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sentence": "alone"}, "the sentence has one word, 'alone'; attention needs at least two"),
        ({"sentence": "the tired horse"}, "these are not 4 heads of this sentence: it has 3 words, 3 different, and"),
        ({"finds": [[True]]}, "these are not 1 heads of this sentence: it has 11 words"),
        ({"finds": []}, "finds: List should have at least 1 item"),
        ({"w_q": [[0.0] * 31]}, "w_q.0: List should have at least 32 items"),
        ({"w_q": [[1e9] * 32]}, "w_q.0.0: Input should be less than or equal to 10000"),
    ],
)
def test_heads_that_do_not_fit_are_refused(client, changed, said):
    answer = client.post("/api/lab/craft/open", json=trained_heads() | changed)
    assert answer.status_code == 422
    assert said in answer.json()["message"]


def test_trained_heads_open_in_the_microscope(client):
    heads = trained_heads()
    opened = client.post("/api/lab/craft/open", json=heads).json()
    assert opened == client.post("/api/lab/craft/open", json=heads).json()
    assert opened != client.post("/api/lab/craft/open", json=trained_heads(seed=1)).json()
    assert opened["model"] in client.get("/api/models").json()["names"]
    look = unpack(client.post(f"/api/look?model={opened['model']}", json={"text": opened["text"]}).content)
    asked = {"look": look.values["look"], "head": "0.2", "rows": [8, 9], "columns": [0, 11]}
    found = unpack(client.post(f"/api/weights?model={opened['model']}", json=asked).content)
    x = torch.tensor(heads["tokens"])[1:] + torch.tensor(heads["places"])  # every word is another
    q, k = (torch.tensor(heads[name])[16:24] for name in ("w_q", "w_k"))
    scores = (q @ x[8]) @ (k @ x[:9].T) / 8**0.5
    assert found.arrays["weights"][0, :9] == pytest.approx(scores.softmax(-1).numpy(), abs=1e-5)


def test_the_worked_example_is_the_lab_s(client):
    assert client.get("/api/lab/worked").json() == json.loads(json.dumps(asdict(WorkedExample())))


def test_every_head_by_hand_opens_in_the_microscope(client):
    roles = client.get("/api/lab/by-hand").json()
    assert len(roles) == 6
    opened = client.post("/api/lab/by-hand/open", json={"role": "induction"}).json()
    card = client.get(f"/api/model?model={opened['model']}").json()
    assert [site["name"] for site in card["sites"]] == ["0", "1"]
    look = unpack(client.post(f"/api/look?model={opened['model']}", json={"text": opened["text"]}).content).values
    tokens = [token["text"] for token in look["tokens"]]
    assert "".join(tokens[1:]) == opened["text"]
    again = 1 + tokens.index(" sees") + tokens[1 + tokens.index(" sees") :].index(" sees")
    asked = {"look": look["look"], "head": "1.0", "rows": [again, again + 1], "columns": [0, len(tokens)]}
    found = unpack(client.post(f"/api/weights?model={opened['model']}", json=asked).content)
    assert found.arrays["weights"][0, 1 + tokens.index(" sees")] > 0.99  # it reads what stood after the first


def test_a_puzzle_is_opened_marked_and_solved_only_when_asked(client):
    listed = client.get("/api/lab/puzzles").json()
    assert listed["levels"] == 10
    opened = client.post("/api/lab/puzzle/open", json={"name": "puzzle-4-3"}).json()
    made = named(opened["model"])
    assert opened == {"model": "puzzle-4-3", "text": made.text}
    assert client.get("/api/model?model=puzzle-4-3").json()["sites"][0]["n_heads"] == len(made.compiled.truth)
    (head, rule), *_ = made.solution.items()
    told = client.post("/api/lab/puzzle", json={"name": "puzzle-4-3", "answers": {head: rule}}).json()
    assert (told["jobs"], told["told"][0]["right"], told["solution"]) == (2, True, {})
    solved = client.post("/api/lab/puzzle", json={"name": "puzzle-4-3", "solve": True}).json()
    assert solved["solution"] == made.solution
    assert named(listed["week"]).name == listed["week"]


def test_the_stored_results_are_sent_with_their_conclusions(client):
    card = ResultsResponse.model_validate(client.get("/api/lab/one-or-many").json())
    stored = stored_results()
    assert [outcome.average for outcome in card.arms] == [round(outcome.mean, 4) for outcome in stored.arms]
    assert card.conclusions == conclusions(stored)
    for row in card.rows:
        values = dict(row.pairs)
        assert [values[key] for key in row.asks] == row.answer


def test_a_small_comparison_is_streamed_arm_by_arm(client):
    asked = {"experiment": "partition", "d_model": 8, "heads": [1, 8], "seeds": 2, "steps": 20}
    answer = client.post("/api/lab/one-or-many", json=asked)
    begun, *outcomes = map(json.loads, answer.text.splitlines())
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert begun["arms"] == ["1 head", "8 heads"]
    assert [outcome["d_head"] for outcome in outcomes] == [8, 1]
    assert all(len(outcome["accuracies"]) == 2 for outcome in outcomes)
