"""The worked example equals the definition of attention, and the exercises are marked."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.attention import reference
from headscope.errors import InputError
from headscope.lab.teach.exercises import ARROWS, InventTwoHeads, check_fork
from headscope.lab.teach.worked_example import (
    WorkedExample,
    _identity,
    _softmax,
    _sum_and_difference,
    _times,
    number,
    vector,
    work,
)


def test_the_sums_of_the_two_scorecards() -> None:
    worked = work()
    assert worked.heads[0].z == pytest.approx([0.62, 0.19, 0.085, 0.21], abs=1e-12)
    assert worked.heads[1].z == pytest.approx([0.355, 0.41, 0.12, 0.275], abs=1e-12)
    assert worked.concatenated == worked.heads[0].z + worked.heads[1].z
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


def test_every_field_can_be_edited_and_serialises_to_json() -> None:
    edited = json.loads(json.dumps(asdict(WorkedExample())))
    edited["values"]["animal"] = [1, 0, 0, 0]
    edited["heads"][0]["scorecard"] = {"animal": 1, "road": 0, "because": 0, "was": 0, "tired": 0}
    worked = work(WorkedExample.from_dict(edited))
    assert worked.heads[0].z == [1, 0, 0, 0]
    assert worked.concatenated[:4] == [1, 0, 0, 0]


X, VALUES = WorkedExample().x, WorkedExample().values
FIRST: dict[str, object] = asdict(WorkedExample())["heads"][0]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"colour": 1}, "the example has no field 'colour'"),
        ({"values": {"animal": [1, 2]}}, "the scorecard of head 1 has the words animal, road"),
        ({"x": {"it": [1.0] * 8}}, "x has no row for 'animal'"),
        ({"W_O": [[1.0]]}, "W_O must have 8 rows of numbers, got 1"),
        ({"values": {}}, "at least one head and one word"),
        ({"heads": [{"asks": "?"}]}, "W_Q is missing"),
        ({"W_O": []}, "W_O must have 8 rows of numbers, got 0"),
        ({"W_O": [[1.0]] * 7 + [[1.0, 2.0]]}, r"a row of W_O must be 1 finite numbers, got \[1\.0, 2\.0\]"),
        ({"x": X | {"road": [1.0] * 7}}, r"the x of 'road' must be 8 finite numbers, got \[1\.0, "),
        ({"x": X | {"road": [1.0] * 7 + ["8"]}}, "the x of 'road' must be 8 finite numbers"),
        ({"x": X | {"road": [True] * 8}}, "the x of 'road' must be 8 finite numbers"),
        ({"values": VALUES | {"was": [1, 2, 3]}}, r"the value of 'was' must be 4 finite numbers, got \[1, 2, 3\]"),
        ({"values": VALUES | {"was": "1234"}}, "the value of 'was' must be 4 finite numbers, got '1234'"),
        ({"heads": [FIRST | {"W_Q": [[1.0]] * 7}]}, "W_Q of head 1 must have 8 rows of numbers, got 7"),
        ({"heads": [FIRST | {"W_Q": []}]}, "W_Q of head 1 must have 8 rows of numbers, got 0"),
        ({"heads": [FIRST, FIRST | {"W_K": [[1.0] * 3] * 8}]}, "a row of W_K of head 2 must be 4 finite numbers"),
    ],
)
def test_bad_edits_are_refused(edit: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WorkedExample.from_dict(edit)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"animal": 0.71}, "the shares of head 1 add up to 1.01; they must add up to 1"),
        ({"animal": 0.9}, "the shares of head 1 add up to 1.2; they must add up to 1"),
        ({"animal": -0.1, "tired": 0.9}, "head 1 gives animal -0.1; shares must be at least 0"),
        ({"animal": float("nan")}, "must be 5 finite numbers"),
    ],
)
def test_a_scorecard_that_is_no_distribution(card: dict[str, float], message: str) -> None:
    parts = asdict(WorkedExample())
    parts["heads"][0]["scorecard"] |= card
    with pytest.raises(InputError, match=message):
        WorkedExample.from_dict(parts)


def test_a_scorecard_may_be_rounded_a_little_and_may_hold_zeros() -> None:
    parts = asdict(WorkedExample())
    parts["heads"][0]["scorecard"] |= {"animal": 0.754, "road": 0}
    assert work(WorkedExample.from_dict(parts)).heads[0].z[0] == pytest.approx(0.754 * 0.8 + 0.055)


def test_formatted_numbers() -> None:
    assert vector([0.62, -0.5, 3, 0, -0.0, 10.25, 10, -20, 100.0]) == "(.62 −.5 3 0 0 10.25 10 −20 100)"
    assert vector([1 / 3, -0.0004, 0.9996, -1.0604]) == "(.333 0 1 −1.06)"
    assert vector([1 / 3, -0.0004], 4) == "(.3333 −.0004)"
    assert [number(10, 0), number(0.4, 0), number(-0.6, 0)] == ["10", "0", "−1"]


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_any_number_of_heads_is_concatenated_and_mixed(n_heads: int) -> None:
    """What a head delivers stands in its own four numbers, and the last steps name every head."""
    W_O = [[row + 10 * column for column in range(3)] for row in range(4 * n_heads)]
    head = WorkedExample().heads[0]
    worked = work(WorkedExample(heads=[head] * n_heads, W_O=W_O))
    assert worked.concatenated == worked.heads[0].z * n_heads
    sums = [sum(a * row[column] for a, row in zip(worked.concatenated, W_O, strict=True)) for column in range(3)]
    assert worked.mixed == pytest.approx(sums)
    *_, joined, plain, mixed = worked.steps
    names = ", ".join(f"o{index}" for index in range(1, n_heads + 1))
    assert joined.lines == [f"[{names}] = {vector(worked.concatenated)}"]
    assert plain.lines == [f"y = {vector(worked.concatenated)}"]
    assert len(mixed.lines) == 3
    assert len(worked.steps) == 4 * n_heads + 3


def test_every_step_ends_in_the_number_that_was_computed() -> None:
    """The arithmetic shown is the arithmetic done: what stands behind the last = is the number itself."""
    worked = work()
    for index, head in enumerate(worked.heads, start=1):
        query, scores, softened = worked.steps[3 * (index - 1) : 3 * index]
        weighed = worked.steps[6 + index - 1]
        shown = {"query": query, "scores": scores, "weights": softened, "z": weighed}
        for part, step in shown.items():
            found = getattr(head, part)
            numbers = list(found.values()) if isinstance(found, dict) else found
            assert [line.rpartition(" = ")[2] for line in step.lines] == [number(value) for value in numbers], part
        assert all(step.title.startswith(f"Head {index}: ") for step in shown.values())
        assert worked.example.heads[index - 1].asks in query.says
        assert "√4 = 2" in scores.says


def test_an_empty_sum_is_written_as_zero() -> None:
    silent = asdict(WorkedExample())["heads"]
    silent[0]["W_Q"] = [[0.0] * 4 for _ in range(8)]
    worked = work(WorkedExample.from_dict({"heads": silent}))
    assert worked.steps[0].lines == [f"q1[{place}] = 0 = 0" for place in (1, 2, 3, 4)]
    assert list(worked.heads[0].weights.values()) == pytest.approx([0.2] * 5), "no question: every word alike"


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6), st.floats(-2000, 2000))
def test_softmax_sums_to_one_and_is_invariant_to_a_shift(scores: list[float], shift: float) -> None:
    shares = _softmax({str(place): score for place, score in enumerate(scores)})
    moved = _softmax({str(place): score + shift for place, score in enumerate(scores)})
    theirs = torch.tensor(scores, dtype=torch.float64).softmax(0)
    assert list(shares.values()) == pytest.approx(theirs.tolist())
    assert list(moved.values()) == pytest.approx(theirs.tolist(), abs=1e-9)


@pytest.mark.parametrize("half", [1, 2, 4])
def test_the_mixing_matrix_gives_half_the_sum_and_half_the_difference(half: int) -> None:
    first, second = [float(n + 1) for n in range(half)], [10.0 * (n + 1) for n in range(half)]
    both = list(zip(first, second, strict=True))
    mixed = _times([*first, *second], _sum_and_difference(2 * half))
    assert mixed == [(a + b) / 2 for a, b in both] + [(a - b) / 2 for a, b in both]
    assert _times([*first, *second], _identity(2 * half)) == [*first, *second]


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
def test_a_wrong_answer_is_explained(heads: list[str], sums: list[str], says: str) -> None:
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
