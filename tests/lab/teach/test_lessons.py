"""Every lesson runs, its numbers come from its code, and answers are marked."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.teach import lessons
from headscope.lab.teach.course.questions import Option, QuizQuestion
from headscope.lab.teach.lessons import FOLDER, contents, lesson

NUMBERS = [int(file.stem[:2]) for file in sorted(FOLDER.glob("*.md"))]


def test_lessons_are_numbered_from_zero() -> None:
    assert [number for number, _, _ in contents()] == list(range(len(NUMBERS)))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_runs_and_is_whole(number: int) -> None:
    before = torch.random.get_rng_state()
    read = lesson(number)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert read.output
    assert len(read.questions) >= 2
    assert (number, read.name, read.title) in contents()
    assert all(part for part in (read.title, read.idea, read.try_it))
    shown = read.to_dict()
    assert not re.search(r"\{\{|\[\[|:::", "".join(shown[name] for name in ("title", "idea", "computed", "try_it")))
    assert lesson(read.name) == read
    assert json.loads(json.dumps(read.to_dict()))["number"] == number


@pytest.mark.parametrize("number", NUMBERS)
def test_every_question_has_a_right_answer_and_explains_the_wrong_ones(number: int) -> None:
    for place, question in enumerate(lesson(number).questions, start=1):
        answers = [option.text if question.numeric else "abcdefgh"[i] for i, option in enumerate(question.options)]
        marks = [lesson(number).check(place, answer) for answer in answers]
        assert sum(mark.right for mark in marks) == 1
        assert all(len(mark.says) > 10 for mark in marks)
        shown = question.asked.options
        assert shown == ([] if question.numeric else [option.text for option in question.options])


def _keep(printed: list[str], *given: object) -> None:
    printed.append(str(given))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_has_a_figure_and_a_block_whose_code_and_solution_run(number: int) -> None:
    read = lesson(number)
    assert read.figures
    assert all(json.dumps(figure.props) for figure in read.figures)
    assert read.block is not None
    for code in (read.to_dict()["block"]["code"], read.to_dict()["block"]["solution"]):
        assert "{{" not in code
        assert "torch" not in code
        printed: list[str] = []
        exec(compile(code, f"lesson {number}", "exec"), {"print": partial(_keep, printed)})
        assert printed
    assert read.block.hint


@pytest.mark.parametrize("number", NUMBERS)
def test_a_wrong_first_answer_gets_a_hint_that_does_not_give_the_answer(number: int) -> None:
    for place, question in enumerate(lesson(number).questions, start=1):
        right = next(option for option in question.options if option.right)
        assert not re.match(r"(Yes|Right)\b", right.says), "the page says Right. itself"
        for at, option in enumerate(question.options):
            answer = option.text if question.numeric else "abcdefgh"[at]
            first = lesson(number).check(place, answer, 1)
            assert (first.right, first.kind) == (option.right, "reason" if option.right else "hint")
            assert option.right or first.says == question.hint
            assert lesson(number).check(place, answer, 2).says == option.says
        if question.numeric:
            assert right.text not in question.hint.split()
            unforeseen = [lesson(number).check(place, "123456", attempt) for attempt in (1, 2, 3)]
            assert [mark.kind for mark in unforeseen] == ["hint", "hint", "reason"]
            assert unforeseen[-1].says.startswith(f"It is {right.text}.")


def test_the_numbers_that_lessons_speak_of() -> None:
    shown = {number: lesson(number).to_dict() for number in (2, 5, 7, 8, 10)}
    assert "12 heads × 64 numbers = 768" in shown[2]["idea"]
    assert "W_O is (768, 768)" in shown[2]["computed"]
    assert "(.62 .19 .085 .21 .355 .41 .12 .275)" in lesson(3).output
    assert "12288 / 96 = 128" in " ".join(shown[5]["computed"].split())
    assert "65,536 numbers per token" in shown[7]["computed"]
    assert "At two bytes each (fp16) that is 128 KiB." in " ".join(shown[7]["computed"].split())
    assert "**32 / 8 = 4**: each group of 4 heads" in shown[7]["idea"]
    assert "144 attention patterns" in shown[8]["computed"]
    assert "137 GB" in shown[10]["computed"]
    by_hand, random, trained = re.findall(r"(?:hand|random|trained) (\d\.\d+)", lesson(4).output)
    assert float(by_hand) >= 0.99
    assert float(random) < 0.1 < float(trained)
    whole, silent = re.findall(r": (\d\.\d+)", lesson(8).output.splitlines()[0])
    assert float(whole) >= 0.99
    assert float(silent) < 0.04


def test_beginner_lessons_show_at_most_2650_words_at_once() -> None:
    shown = 0
    for number in (0, 1, 2, 3, 7):
        text = next(FOLDER.glob(f"{number:02}-*.md")).read_text(encoding="utf-8")
        prose = re.sub(r"^```.*?^```|^:::.*?$", "", text, flags=re.M | re.S)
        parts = re.split(r"^(?=##+ )", prose, flags=re.M)
        shown += sum(len(part.split()) for part in parts if not part.startswith("### More: "))
    assert shown <= 2650


def test_the_head_that_feeds_the_reader_has_read_the_token_before() -> None:
    """What the lesson says of its first writer is true of the embedded model."""
    props = lesson("how-one-head-feeds-another").figures[0].props["of"]
    first = props["rows"][0]["publish"]
    output = lesson("how-one-head-feeds-another").output
    reader = output.split()[0]
    assert first["read"] == "the"
    assert first["read_weight"] > 0.5
    assert int(first["writer"].partition(".")[0]) < int(reader.partition(".")[0])
    assert first["true"] < first["predicted"] < 0
    assert all(row["value"] <= props["top"] for row in props["rows"])


def test_answers_that_a_person_may_write() -> None:
    seven = lesson(7)
    assert seven.check(1, " 32. ").right
    assert seven.check(1, "32 patterns").right
    assert "The common wrong answer" in seven.check(1, "8").says
    assert seven.check(1, "7").says.startswith("It is 32.")
    assert seven.check(2, "(B)").right
    assert lesson("mqa-and-gqa") == seven


NUMERIC = QuizQuestion("How many?", [Option("1,200", True, "Counted."), Option("−3", False, "Too few.")], numeric=True)


@pytest.mark.parametrize(
    ("answer", "right", "says"),
    [
        ("1200", True, "Counted."),
        ("1,200.0 heads", True, "Counted."),
        ("1206", True, "Counted."),
        ("1194", True, "Counted."),
        ("1207", False, "It is 1,200. Counted."),
        ("-3", False, "Too few."),
        ("−3.014", False, "Too few."),
        ("-3.02", False, "It is 1,200. Counted."),
        (".5", False, "It is 1,200. Counted."),
        ("1200%", True, "Counted."),
    ],
)
def test_a_number_may_be_off_by_half_a_percent_and_a_known_mistake_has_its_own_reply(
    answer: str, right: bool, says: str
) -> None:
    marked = NUMERIC.mark(answer)
    assert (marked.right, marked.says, marked.kind) == (right, says, "reason")


LESSON = """# Made up

## Idea

A thought.

## Computed

Before the code.

```python
import torch
torch.manual_seed(5)
half = 1 / 2
print("half is", half)
```

After it: {{half:.2f}}.

## Try it

Something with {{half}}.

## Questions

### Which is half?

- [x] {{half}}
  Yes,
  it is.
- [ ] 2
  That is double.

### How many halves make one?

- [=] 2
  Two.
- [ ] 4
  Four make two.
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lessons, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("```python", "```text", "12-made-up.md has 0 Python blocks; a lesson has one"),
        ("## Try it", "```python\n1\n```\n\n## Try it", "12-made-up.md has 2 Python blocks"),
        (
            "## Try it",
            "## Play",
            "has the sections Idea, Computed, Play, Questions; a lesson has Idea, Computed, Try it",
        ),
        ("{{half:.2f}}", "{{whole:.2f}}", "the text uses 'whole', which its code does not compute"),
        ("- [x]", "- [ ]", "the question 'Which is half\\?' needs one right option and at least one wrong one"),
        ("- [ ] 2", "- [x] 2", "the question 'Which is half\\?' needs one right option"),
        ("- [ ] 4\n  Four make two.\n", "", "the question 'How many halves make one\\?' needs one right option"),
    ],
)
def test_a_lesson_that_is_not_whole_is_refused_with_what_it_lacks(
    shelf: Path, old: str, new: str, message: str
) -> None:
    assert old in LESSON
    (shelf / "12-made-up.md").write_text(LESSON.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        lesson(12)


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.md")), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_no_number_to_fill_in_stands_inside_inline_code_which_the_page_shows_as_written(file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not [code for code in re.findall(r"`[^`\n]+`", prose) if "{{" in code]
