"""Answers to the two exercises, marked against sums computed again."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.errors import InputError
from headscope.lab.teach.exercises import (
    ARROWS,
    BOXES,
    ROUNDING,
    Checked,
    InventTwoHeads,
    Remark,
    _parse_scorecard,
    check_fork,
)
from headscope.lab.teach.worked_example import weigh

EXERCISE = InventTwoHeads()
WHO, WHAT = {"horse": 0.6, "road": 0.4}, {"tired": 0.7, "was": 0.3}
RIGHT = " , ".join(f"{start} > {end}" for start, end in ARROWS)


def remark(checked: Checked, about: str) -> Remark:
    (found,) = [each for each in checked.remarks if each.about == about]
    return found


def summed(card: dict[str, float]) -> list[float]:
    """The weighted sum, number by number."""
    return [sum(share * EXERCISE.values[word][place] for word, share in card.items()) for place in range(4)]


def test_a_right_answer_has_only_right_remarks() -> None:
    checked = EXERCISE.check([WHO, WHAT], [summed(WHO), summed(WHAT)])
    assert checked.right
    assert [each.about for each in checked.remarks] == [
        "head 1: shares", "head 2: shares", "two different questions", "head 1: sum", "head 2: sum",
    ]  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 100), min_size=5, max_size=5), st.integers(0, 3), st.sampled_from([0.004, -0.004, 0.006])
)
def test_a_sum_may_be_rounded_by_half_a_hundredth_and_no_more(shares: list[int], place: int, off: float) -> None:
    card = {word: share / 100 for word, share in zip(EXERCISE.values, shares, strict=True)}
    said = summed(card)
    said[place] += off
    found = remark(EXERCISE.check([card, WHAT], [said]), "head 1: sum")
    assert found.right == (abs(off) <= ROUNDING)
    if not found.right:
        assert found.says.startswith(f"Number {place + 1} is ")


def test_a_wrong_sum_is_shown_term_by_term() -> None:
    said = remark(EXERCISE.check([WHO, WHAT], [[0.52, 0.9, 0.04, 0.12]]), "head 1: sum").says
    assert said == "Number 2 is .6·.1 + .4·.7 = .34, not .9."


@pytest.mark.parametrize(
    ("card", "says"),
    [
        ({"horse": 1.2}, "They add up to 1.2, too much: a head shares out exactly 1."),
        ({"horse": 0.5}, "They add up to .5, too little: a head shares out exactly 1."),
        ({}, "They add up to 0, too little: a head shares out exactly 1."),
        ({"horse": 1.5, "road": -0.5}, "road has −.5; softmax never gives less than 0."),
        ({"horse": 0.996}, "They add up to 1."),
    ],
)
def test_shares_that_are_no_distribution_are_explained(card: dict[str, float], says: str) -> None:
    found = remark(EXERCISE.check([card, WHAT]), "head 1: shares")
    assert found.says == says
    assert found.right == (says == "They add up to 1.")


@pytest.mark.parametrize(("first", "second"), list(product(EXERCISE.values, repeat=2)))
def test_one_head_attends_to_the_referent_and_one_to_the_attribute(first: str, second: str) -> None:
    found = remark(EXERCISE.check([{first: 1.0}, {second: 1.0}]), "two different questions")
    assert found.right == ({first, second} == {"horse", "tired"})
    if first == second:
        assert f"Both heads read {first} most" in found.says
    elif not found.right:
        assert f"They read {first} and {second} most" in found.says


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("horse .6, road .4", {"horse": 0.6, "road": 0.4}),
        ("Horse: 60%; ROAD=40 %", None),
        ("Horse: 60%; ROAD=40%", {"horse": 0.6, "road": 0.4}),
        ("horse 1. road −.5", {"horse": 1.0, "road": -0.5}),
        ("horse .6 and road .4", None),
        (".6", None),
        ("", None),
    ],
)
def test_scorecards_as_people_write_them(text: str, card: dict[str, float] | None) -> None:
    if card is not None:
        assert _parse_scorecard(text, "x") == pytest.approx(card)
        return
    with pytest.raises(InputError, match="as words with shares; write it like this: the example"):
        _parse_scorecard(text, "the example")


@given(st.dictionaries(st.sampled_from(sorted(EXERCISE.values)), st.integers(-200, 200), min_size=1))
def test_a_scorecard_written_out_is_read_back(shares: dict[str, int]) -> None:
    card = {word: share / 100 for word, share in shares.items()}
    assert _parse_scorecard(", ".join(f"{word} {share:.2f}" for word, share in card.items()), "x") == card


@pytest.mark.parametrize("start", BOXES)
@pytest.mark.parametrize("end", BOXES)
def test_every_arrow_one_could_draw_is_right_exactly_where_it_belongs(start: str, end: str) -> None:
    checked = check_fork([*ARROWS, (start, end)])
    assert checked.right == ((start, end) in ARROWS)
    found = remark(checked, f"{start} → {end}")
    if (end, start) in ARROWS:
        assert "The other way round" in found.says


@pytest.mark.parametrize(
    "drawn",
    [
        RIGHT,
        RIGHT.replace(">", "→").upper(),
        "input -> head 1 -> concatenate -> w_o -> output; input > HEAD_2 > Concatenate",
        f"{RIGHT}\n{RIGHT}",
    ],
)
def test_the_fork_as_people_write_it(drawn: str) -> None:
    checked = check_fork(drawn)
    assert checked.right
    assert len(checked.remarks) == len(ARROWS)


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ("input", "'input' has no arrow; write them like this: input > head 1"),
        ("", "no arrows in ''; write them like this"),
        (">", "no arrows in '>'"),
        ("input > ears", "there is no box 'ears'; the boxes are input, head 1"),
        ([("input", "head 1", "head 2")], "an arrow joins two boxes, got"),
    ],
)
def test_a_drawing_that_cannot_be_read_is_refused(drawn: str | list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_fork(drawn)


HEADS = ("horse .6, road .1, because .1, was .1, tired .1", "horse .1, road .1, because .1, was .1, tired .6")


def _sums() -> list[list[float]]:
    invent = InventTwoHeads()
    return [[round(value, 3) for value in weigh(invent.parse(head), invent.values)] for head in HEADS]


def test_each_sum_is_checked_on_its_own() -> None:
    first, second = (" ".join(map(str, each)) for each in _sums())
    alone = InventTwoHeads().check(HEADS, ["9 9 9 9", ""])
    assert [(remark.about, remark.right) for remark in alone.remarks[3:]] == [("head 1: sum", False)]
    both = InventTwoHeads().check(HEADS, ["9 9 9 9", second])
    assert [(remark.about, remark.right) for remark in both.remarks[3:]] == [
        ("head 1: sum", False),
        ("head 2: sum", True),
    ]
    assert InventTwoHeads().check(HEADS, [first, second]).right


@pytest.mark.parametrize(
    ("written", "right", "says"),
    [
        (lambda a, b: [*a, *b], True, "End to end"),
        (lambda a, b: [*b, *a], False, "in the other order"),
        (lambda a, b: [x + y for x, y in zip(a, b, strict=True)], False, "It has 8 numbers, not 4"),
        (lambda a, b: [*a, *b][:7], False, "you gave 7"),
        (lambda a, b: [*a, 9, 9, 9, 9], False, "The second half is not the output of head 2"),
    ],
)
def test_the_concatenation(written: Any, right: bool, says: str) -> None:
    text = " ".join(map(str, written(*_sums())))
    remark = InventTwoHeads().check(HEADS, concatenated=text).remarks[-1]
    assert (remark.about, remark.right) == ("concatenation", right)
    assert says in remark.says


def test_values_of_one_s_own() -> None:
    invent = InventTwoHeads()
    own = {word: [1, 0] for word in invent.values}
    mine = replace(invent, values=invent.own_values(own))
    assert mine.check(HEADS, ["1 0", "1 0"], concatenated="1 0 1 0").right
    with pytest.raises(InputError, match="give one value for each of horse, road"):
        invent.own_values({"horse": [1]})
    with pytest.raises(InputError, match="the same number of numbers"):
        invent.own_values(own | {"road": [1]})
