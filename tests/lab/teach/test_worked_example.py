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
from headscope.lab.teach.exercises import InventTwoHeads
from headscope.lab.teach.worked_example import (
    WorkedExample,
    _softmax,
    number,
    vector,
    work,
)


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


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6), st.floats(-2000, 2000))
def test_softmax_sums_to_one_and_is_invariant_to_a_shift(scores: list[float], shift: float) -> None:
    shares = _softmax({str(place): score for place, score in enumerate(scores)})
    moved = _softmax({str(place): score + shift for place, score in enumerate(scores)})
    theirs = torch.tensor(scores, dtype=torch.float64).softmax(0)
    assert list(shares.values()) == pytest.approx(theirs.tolist())
    assert list(moved.values()) == pytest.approx(theirs.tolist(), abs=1e-9)


GOOD = ["horse .7, road .05, because .1, was .05, tired .1", "horse 20%, road 5%, because 5%, was 15%, tired 55%"]


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
