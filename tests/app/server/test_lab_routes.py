"""Lab routes: trained heads as a stream, the worked example, stored results, and refusals."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict

import numpy as np
import pytest

from headscope.app.pages.one_or_many import ResultsResponse
from headscope.app.wire import Container, unpack
from headscope.lab.teach.crafted_heads import craft
from headscope.lab.teach.one_or_many import conclusions, stored_results
from headscope.lab.teach.puzzle import named
from headscope.lab.teach.target_patterns import SENTENCE, sentence_targets, split_words
from headscope.lab.teach.worked_example import WorkedExample


def frames(answer) -> list[Container]:
    """The containers of a stream."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-headscope-frames"
    data, found = answer.content, []
    while data:
        (length,) = struct.unpack_from("<I", data)
        found.append(unpack(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


@pytest.fixture
def request_of(client) -> dict:
    """What the page sends when it is opened."""
    card = client.post("/api/lab/sentence", json={}).json()
    return {"sentence": card["sentence"], "targets": card["targets"]}


def test_the_first_sentence_has_four_targets(client, request_of):
    assert request_of["sentence"] == SENTENCE
    assert [target["name"] for target in request_of["targets"]][2] == "Pronoun to antecedent"
    assert request_of["targets"][2]["arrows"] == [[8, 2]]


def test_the_user_s_own_sentence_gets_the_previous_token_target_and_no_guess_without_a_verb(client):
    card = client.post("/api/lab/sentence", json={"sentence": "a dog, a cat"}).json()
    assert card["words"] == ["a", "dog", ",", "a", "cat"]
    *guessed, previous = (target["arrows"] for target in card["targets"])
    assert previous == [[1, 0], [2, 1], [3, 2], [4, 3]]
    assert guessed == [[], [], []]


def test_training_is_streamed_and_ends_with_the_lab_s_result(client, request_of):
    begun, *steps, done = frames(client.post("/api/lab/craft", json=request_of))
    crafted = craft(SENTENCE, sentence_targets(split_words(SENTENCE)))
    assert begun.values["words"] == crafted.words
    np.testing.assert_array_equal(begun.arrays["wanted"], crafted.wanted)
    assert begun.arrays["finds"].sum(1).tolist() == [2, 2, 1, 10]
    assert [step.values["step"] for step in steps] == [snapshot.step for snapshot in crafted.snapshots]
    np.testing.assert_allclose(steps[-1].arrays["patterns"], crafted.snapshots[-1].patterns, atol=1e-6)
    assert [head["hit"] for head in done.values["heads"]] == [head.hit for head in crafted.heads]


def test_a_head_too_small_for_its_target_reports_why(client, request_of):
    done = frames(client.post("/api/lab/craft", json=request_of | {"d_head": 1, "steps": 60}))[-1]
    misses = [row for head in done.values["heads"] for row in head["misses"]]
    assert misses
    assert all(row["why"] for row in misses)


def test_unequal_shares_are_the_training_target(client, request_of):
    painted = {"name": "Pronoun", "arrows": [[8, 2], [8, 6]], "shares": [0.8, 0.2]}
    begun, *steps, done = frames(client.post("/api/lab/craft", json=request_of | {"targets": [painted]}))
    assert begun.arrays["wanted"][0, 8, [2, 6]] == pytest.approx([0.8, 0.2])
    assert steps[-1].arrays["patterns"][0, 8, [2, 6]] == pytest.approx([0.8, 0.2], abs=0.02)
    assert done.values["heads"][0]["hit"] > 0.98
    opened = [client.post("/api/lab/craft/open", json=request_of | {"targets": [each]}).json()["model"] for each in
              (painted, painted | {"shares": [0.2, 0.8]})]  # fmt: skip
    assert opened[0] != opened[1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sentence": "alone"}, "the sentence has one word, 'alone'; attention needs at least two"),
        ({"sentence": "word " * 200}, "the sentence has 200 words; at most 64"),
        ({"targets": [{"name": "Ahead", "arrows": [[0, 1]]}]}, "Ahead: 'The' (0) cannot attend ahead to 'tired' (1)"),
        (
            {"targets": [{"name": "Much", "arrows": [[8, 2], [8, 6]], "shares": [0.8, 0.4]}]},
            "Much: the row of 'it' (8) adds up to 1.2; a softmax row sums to exactly 1",
        ),
        (
            {"targets": [{"name": "Few", "arrows": [[8, 2], [8, 6]], "shares": [1]}]},
            "Few: 2 arrows and 1 shares; give one share per arrow, or none for equal shares",
        ),
        ({"targets": []}, "targets: List should have at least 1 item"),
        ({"steps": 100_000}, "steps: Input should be less than or equal to 1000"),
    ],
)
def test_invalid_craft_requests_are_refused(client, request_of, changed, said):
    answer = client.post("/api/lab/craft", json=request_of | changed)
    assert answer.status_code == 422
    assert answer.json()["message"].startswith(said)


def test_crafted_heads_open_in_the_microscope(client, request_of):
    opened = client.post("/api/lab/craft/open", json=request_of).json()
    assert opened == client.post("/api/lab/craft/open", json=request_of).json()
    assert opened["model"] in client.get("/api/models").json()["names"]
    look = unpack(client.post(f"/api/look?model={opened['model']}", json={"text": opened["text"]}).content)
    asked = {"look": look.values["look"], "head": "0.2", "rows": [8, 9], "columns": [0, 11]}
    found = unpack(client.post(f"/api/weights?model={opened['model']}", json=asked).content)
    np.testing.assert_allclose(
        found.arrays["weights"][0],
        craft(SENTENCE, sentence_targets(split_words(SENTENCE))).snapshots[-1].patterns[2, 8],
        atol=1e-5,
    )


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
    assert [outcome.mean for outcome in card.arms] == [round(outcome.mean, 4) for outcome in stored.arms]
    assert card.conclusions == conclusions(stored)
    for row in card.rows:
        values = dict(row.pairs)
        assert [values[key] for key in row.asks] == row.answer


def test_a_small_comparison_is_streamed_arm_by_arm(client):
    asked = {"experiment": "partition", "d_model": 8, "heads": [1, 8], "seeds": 2, "steps": 20}
    begun, *outcomes = frames(client.post("/api/lab/one-or-many", json=asked))
    assert begun.values["arms"] == ["1 head", "8 heads"]
    assert [outcome.values["d_head"] for outcome in outcomes] == [8, 1]
    assert all(len(outcome.values["accuracies"]) == 2 for outcome in outcomes)
