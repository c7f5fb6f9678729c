"""The worked example computes what the definition of attention computes, and the exercises are marked fairly."""

from __future__ import annotations

import json
import re

import pytest
import torch

from headscope.attention import reference
from headscope.errors import InputError
from headscope.lab.exercises import ARROWS, InventTwoHeads, check_fork
from headscope.lab.worked import WorkedExample, number, vector, work


def test_the_sums_of_the_two_scorecards() -> None:
    worked = work()
    assert worked.heads[0].delivered == pytest.approx([0.62, 0.19, 0.085, 0.21], abs=1e-12)
    assert worked.heads[1].delivered == pytest.approx([0.355, 0.41, 0.12, 0.275], abs=1e-12)
    assert worked.concatenated == worked.heads[0].delivered + worked.heads[1].delivered
    assert worked.through_identity == pytest.approx(worked.concatenated)


def test_from_the_start_it_is_the_definition_of_attention() -> None:
    worked = work()
    example = worked.example
    x = torch.tensor([example.x[example.reader]], dtype=torch.float64)
    context = torch.tensor([example.x[word] for word in example.words], dtype=torch.float64)
    allowed = torch.ones(1, len(example.words), dtype=torch.bool)
    for head, done in zip(example.heads, worked.heads, strict=True):
        matrices = [torch.tensor(matrix, dtype=torch.float64) for matrix in (head.W_Q, head.W_K, head.W_K)]
        theirs = reference.one_head(x, context, reference.HeadWeights(*matrices), allowed).weights[0]
        assert list(done.weights.values()) == pytest.approx(theirs.tolist())
    joined = torch.tensor([worked.concatenated], dtype=torch.float64)
    assert worked.mixed == pytest.approx((joined @ torch.tensor(example.W_O, dtype=torch.float64))[0].tolist())


def test_two_queries_of_one_token_differ_only_by_their_matrix() -> None:
    first, second = work().heads
    assert first.keys == second.keys
    assert first.query != second.query
    assert max(first.weights, key=lambda word: first.weights[word]) == "animal"
    assert max(second.weights, key=lambda word: second.weights[word]) == "tired"


def test_steps_are_arithmetic_that_can_be_checked() -> None:
    steps = {step.title: step for step in work().steps}
    assert steps["Head 1: weigh the values"].lines[0] == "o1[1] = .7·.8 + .05·.1 + .1·.2 + .05·.1 + .1·.3 = .62"
    assert steps["W_O, mixing"].lines[0] == "y[1] = .62·.5 + .355·.5 = .4875"
    for step in steps.values():
        for line in step.lines:
            left, _, right = line.rpartition(" = ")
            sums = left.rpartition(" = ")[2].rpartition(": ")[2]
            if "·" in sums:
                plain = sums.replace("·", "*").replace("−", "-")
                assert number(eval(plain), 4).startswith(right[:3]), line


def test_everything_can_be_edited_and_travels_as_json() -> None:
    edited = json.loads(json.dumps(WorkedExample().to_dict()))
    edited["values"]["animal"] = [1, 0, 0, 0]
    edited["heads"][0]["scorecard"] = {"animal": 1, "road": 0, "because": 0, "was": 0, "tired": 0}
    worked = work(WorkedExample.from_dict(edited))
    assert worked.heads[0].delivered == [1, 0, 0, 0]
    assert worked.concatenated[:4] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"colour": 1}, "the example has no part 'colour'"),
        ({"values": {"animal": [1, 2]}}, "the scorecard of head 1 is about animal, road"),
        ({"x": {"it": [1.0] * 8}}, "there is no x for 'animal'"),
        ({"W_O": [[1.0]]}, "W_O must have 8 rows of numbers, got 1"),
        ({"values": {}}, "at least one head and one word"),
        ({"heads": [{"asks": "?"}]}, "W_Q is missing"),
    ],
)
def test_bad_edits_are_said(edit: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WorkedExample.from_dict(edit)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"animal": 0.9}, "the shares of head 1 add up to 1.2; they must add up to 1"),
        ({"animal": -0.1, "tired": 0.9}, "head 1 gives animal -0.1; a share is never negative"),
        ({"animal": float("nan")}, "must be 5 finite numbers"),
    ],
)
def test_a_scorecard_that_is_no_distribution(card: dict[str, float], message: str) -> None:
    parts = WorkedExample().to_dict()
    parts["heads"][0]["scorecard"] |= card
    with pytest.raises(InputError, match=message):
        WorkedExample.from_dict(parts)


def test_numbers_are_written_as_by_hand() -> None:
    assert vector([0.62, -0.5, 3, 0, -0.0, 10.25]) == "(.62 −.5 3 0 0 10.25)"


GOOD = ["horse .7, road .05, because .1, was .05, tired .1", "horse 20%, road 5%, because 5%, was 15%, tired 55%"]


def test_two_good_heads_with_right_sums() -> None:
    checked = InventTwoHeads().check(GOOD, [".62 .19 .085 .21", "(.355, .41, .12, .275)"])
    assert checked.right
    assert [remark.about for remark in checked.remarks][-1] == "head 2: sum"


@pytest.mark.parametrize(
    ("heads", "sums", "says"),
    [
        ([GOOD[0], "tired .5"], [], "They add up to .5, too little"),
        ([GOOD[0], "tired 1.2, horse -.2"], [], "horse has −.2; softmax never gives less than 0"),
        ([GOOD[0], GOOD[0]], [], "Both heads read horse most"),
        (["road 1", GOOD[1]], [], "They read road and tired most"),
        (GOOD, [".62 .2 .085 .21"], r"Number 2 is .7·.1 \+ .05·.7 \+ .1·.2 \+ .05·.1 \+ .1·.6 = .19, not .2"),
        (GOOD, [".62 .19"], "the sum has too; you gave 2"),
    ],
)
def test_a_wrong_answer_is_told_why(heads: list[str], sums: list[str], says: str) -> None:
    checked = InventTwoHeads().check(heads, sums)
    assert not checked.right
    wrong = " ".join(remark.says for remark in checked.remarks if not remark.right)
    assert re.search(says, wrong), wrong


@pytest.mark.parametrize(
    ("heads", "sums", "message"),
    [
        (["blah", GOOD[1]], [], "could not read 'blah' as words with shares; write it like this: horse .6"),
        (["cow 1", GOOD[1]], [], "'cow' is not one of the words to read: horse, road"),
        (GOOD, ["one two"], "could not read 'one two' as numbers; write them like this: .62"),
        (GOOD[:1], [], "asks for two heads, got 1"),
    ],
)
def test_an_answer_that_does_not_parse(heads: list[str], sums: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InventTwoHeads().check(heads, sums)


def test_the_fork_from_memory() -> None:
    assert check_fork("input > head 1 > concatenate -> W_O → output; Input > head2 > concatenate").right
    assert check_fork(ARROWS).right
    missing = check_fork("input > head 1, head 1 > concatenate")
    assert next(remark.about for remark in missing.remarks if not remark.right) == "input → head 2"
    chained = check_fork("input > head 1 > head 2 > concatenate > W_O > output")
    assert "A chain would be two layers" in " ".join(remark.says for remark in chained.remarks)
    backwards = check_fork([("head 1", "input")])
    assert backwards.remarks[0].says == "The other way round: input → head 1."


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ("input", "'input' has no arrow"),
        ("", "no arrows in ''"),
        ("input > head 3", "there is no box 'head 3'; the boxes are input, head 1"),
        ([("input",)], "an arrow joins two boxes"),
    ],
)
def test_a_drawing_that_does_not_parse(drawn: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_fork(drawn)  # type: ignore[arg-type]
