"""Lessons as the page is told them. A lesson's code runs once, when it is first opened, one at a time."""

from __future__ import annotations

import re
import threading

from headscope.app.pages.schema_reading import (
    AnswerRequest,
    LessonCard,
    LessonLine,
    LessonLines,
    LessonQuestion,
    Marked,
)
from headscope.lab.teach import lessons
from headscope.lab.teach.lessons import Lesson

_computing = threading.Lock()


def lesson_lines() -> LessonLines:
    """The contents; nothing is computed."""
    listed = []
    for number, name, title in lessons.contents():
        text = (lessons.FOLDER / f"{number:02}-{name}.md").read_text(encoding="utf-8")
        listed.append(LessonLine(number=number, name=name, title=title, questions=len(re.findall("^### ", text, re.M))))
    return LessonLines(lessons=listed)


def lesson_card(number: int) -> LessonCard:
    """A lesson with its numbers filled in and what its code printed."""
    found = _lesson(number)
    told = {name: getattr(found, name) for name in LessonCard.model_fields if name != "questions"}
    return LessonCard(**told, questions=[LessonQuestion(**question.to_dict()) for question in found.questions])


def mark(number: int, asked: AnswerRequest) -> Marked:
    """Right or wrong, and why."""
    return Marked(**_lesson(number).check(asked.question, asked.answer).to_dict())


def _lesson(number: int) -> Lesson:
    with _computing:
        return lessons.lesson(number)
