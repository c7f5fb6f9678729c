"""The lessons page and the worksheets. A lesson's code runs once, when first opened, and one at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from headscope.app.pages.schema import Request, Response
from headscope.lab.teach import lessons
from headscope.lab.teach.course.questions import AskedQuestion, Marked
from headscope.lab.teach.lessons import LessonText


class LessonSummary(Response):
    """A lesson in the table of contents, and how many questions it has."""

    number: int
    name: str
    title: str
    questions: int


class LessonList(Response):
    """The table of contents; in a class, students see the open lessons. ``last`` is the number of the course's last."""

    lessons: list[LessonSummary]
    last: int


@dataclass(frozen=True)
class LessonResponse(LessonText):
    """A lesson with its numbers and its code's output, and its questions without answers."""

    questions: list[AskedQuestion]


class AnswerRequest(Request):
    """A letter, or a number for a numeric question."""

    question: Annotated[int, Field(ge=1)]
    answer: Annotated[str, Field(min_length=1, max_length=100)]
    attempt: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, description="a wrong first one gets a hint")


def contents() -> LessonList:
    """The table of contents; no lesson's code is run. A class asks for it every few seconds."""
    return _contents(lessons.FOLDER)


@cache
def _contents(folder: Path) -> LessonList:
    listed = []
    for number, name, title in lessons.contents():
        text = (folder / f"{number:02}-{name}.md").read_text(encoding="utf-8")
        count = len(re.findall("^### ", text.partition("\n## Questions\n")[2], re.M))
        listed.append(LessonSummary(number=number, name=name, title=title, questions=count))
    return LessonList(lessons=listed, last=listed[-1].number)


def lesson(number: int) -> LessonResponse:
    """A lesson with its numbers filled in and its code's output."""
    whole = lessons.lesson(number)
    questions = [question.asked for question in whole.questions]
    shown = {field.name: getattr(whole, field.name) for field in fields(LessonText)}
    return LessonResponse(**shown, questions=questions)


def mark(number: int, asked: AnswerRequest) -> Marked:
    """Whether an answer is right, and why."""
    return lessons.lesson(number).check(asked.question, asked.answer, asked.attempt)
