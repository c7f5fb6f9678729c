"""Every lesson runs, its numbers come from its code, and answers are marked kindly."""

from __future__ import annotations

import json
import re

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.lessons import FOLDER, contents, fill, lesson

NUMBERS = range(1, 12)


def test_eleven_lessons_in_order() -> None:
    assert [number for number, _, _ in contents()] == list(NUMBERS)
    assert len(list(FOLDER.glob("*.md"))) == len(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_runs_and_is_whole(number: int) -> None:
    before = torch.random.get_rng_state()
    read = lesson(number)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert read.output
    assert len(read.questions) == 2
    assert len(read.idea.split()) < 300
    assert (number, read.name, read.title) in contents()
    assert all(part for part in (read.title, read.idea, read.computed, read.try_it))
    assert "{{" not in "".join((read.idea, read.computed, read.try_it))
    assert lesson(read.name) == read
    assert json.loads(json.dumps(read.to_dict()))["number"] == number


@pytest.mark.parametrize("number", NUMBERS)
def test_every_question_has_a_right_answer_and_explains_the_wrong_ones(number: int) -> None:
    for place, question in enumerate(lesson(number).questions, start=1):
        answers = [option.text if question.numeric else "abcdefgh"[i] for i, option in enumerate(question.options)]
        marks = [lesson(number).check(place, answer) for answer in answers]
        assert sum(mark.right for mark in marks) == 1
        assert all(len(mark.says) > 10 for mark in marks)
        shown = question.to_dict()["options"]
        assert shown == ([] if question.numeric else [option.text for option in question.options])


def test_the_numbers_that_lessons_speak_of() -> None:
    assert "12 heads of 64 make 768, and W_O is (768, 768)" in lesson(2).computed
    assert "(.62 .19 .085 .21 .355 .41 .12 .275)" in lesson(3).output
    assert "12288 / 96 = 128" in " ".join(lesson(5).computed.split())
    assert "65,536 numbers a token, 128 KiB in fp16" in lesson(7).computed
    assert "144 attention patterns" in lesson(8).computed
    assert "137 GB" in lesson(10).computed
    by_hand, random, trained = re.findall(r"(?:hand|random|trained) (\d\.\d+)", lesson(4).output)
    assert float(by_hand) >= 0.99
    assert float(random) < 0.1 < float(trained)
    whole, silent = re.findall(r": (\d\.\d+)", lesson(8).output.splitlines()[0])
    assert float(whole) >= 0.99
    assert float(silent) < 0.04


def test_answers_that_a_person_may_write() -> None:
    seven = lesson(7)
    assert seven.check(1, " 32. ").right
    assert seven.check(1, "32 patterns").right
    assert "The common wrong answer" in seven.check(1, "8").says
    assert seven.check(1, "7").says.startswith("It is 32.")
    assert seven.check(2, "(B)").right
    assert lesson("mqa-and-gqa") == seven


@pytest.mark.parametrize(
    ("number", "question", "answer", "message"),
    [
        (7, 1, "many", "could not read 'many' as a number; write it like this: 144"),
        (7, 2, "yes", "could not read 'yes' as an answer; give one letter of a, b, such as b"),
        (7, 2, "c", "could not read 'c' as an answer"),
        (7, 3, "a", "lesson 7 has questions 1–2, not 3"),
    ],
)
def test_an_answer_that_does_not_parse(number: int, question: int, answer: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lesson(number).check(question, answer)


def test_unknown_lessons_and_names() -> None:
    with pytest.raises(InputError, match="there is no lesson 'cooking'; there are 1 why-one-head-is-not-enough"):
        lesson("cooking")
    with pytest.raises(InputError, match="the text speaks of 'x', which its code does not compute"):
        fill("{{x:.2f}}", {"y": 1})
    assert fill("{{y:.1f}} and {{y}}", {"y": 1.25}) == "1.2 and 1.25"
