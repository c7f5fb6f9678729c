"""The lessons page. A lesson's code runs once, when it is first opened, one lesson at a time."""

from __future__ import annotations

import re
import threading
from typing import Annotated

from pydantic import Field

from headscope.app.pages.schema import Request, Response
from headscope.lab.teach import lessons
from headscope.lab.teach.lessons import Lesson, Marked

_computing = threading.Lock()


class LessonSummary(Response):
    """A lesson in the table of contents, and how many questions it has."""

    number: int
    name: str
    title: str
    questions: int


class LessonList(Response):
    lessons: list[LessonSummary]


class LessonQuestion(Response):
    """A question without its answer. A numeric one has no options."""

    text: str
    numeric: bool
    options: list[str]


class LessonResponse(Response):
    """A lesson with its numbers and its code's output. Texts are Markdown: paragraphs, lists, emphasis and code."""

    number: int
    name: str
    title: str
    idea: str
    code: str
    output: str
    computed: str
    try_it: str
    questions: list[LessonQuestion]


class AnswerRequest(Request):
    """A letter, or a number for a numeric question."""

    question: Annotated[int, Field(ge=1)]
    answer: Annotated[str, Field(min_length=1, max_length=100)]


def contents() -> LessonList:
    """The table of contents; no lesson's code is run."""
    listed = []
    for number, name, title in lessons.contents():
        text = (lessons.FOLDER / f"{number:02}-{name}.md").read_text(encoding="utf-8")
        count = len(re.findall("^### ", text, re.M))
        listed.append(LessonSummary(number=number, name=name, title=title, questions=count))
    return LessonList(lessons=listed)


def lesson(number: int) -> LessonResponse:
    """A lesson with its numbers filled in and its code's output."""
    return LessonResponse(**_computed(number).to_dict())


def mark(number: int, asked: AnswerRequest) -> Marked:
    """Whether an answer is right, and why."""
    return _computed(number).check(asked.question, asked.answer)


def _computed(number: int) -> Lesson:
    with _computing:
        return lessons.lesson(number)
