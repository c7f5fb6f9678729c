"""The class page: who is here, which lessons are open, first answers as counts, and a page shown with consent.

Everything is kept in memory and ends with the server. A student is a random number in a cookie; the teacher sees
counts.
"""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from headscope.app.pages.course.lessons import LessonSummary
from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.lab.teach.course.questions import Marked
from headscope.lab.teach.lessons import Lesson

CODE_LETTERS, CODE_DIGITS = "BCDFGHJKLMNPQRSTVWXZ", "23456789"  # no vowels, which spell words; no 0 and 1
FEWEST_SHOWN = 8
"""With fewer answers, counts may show who answered what: only right and wrong are counted, unless the teacher asks."""

HERE_SECONDS = 20.0
"""A page asks for news every few seconds; who has not asked for this long has left."""


def _new_code() -> str:
    """A code for the board: four letters and two digits, one of ten million."""
    letters, digits = (
        "".join(secrets.choice(some) for _ in range(count)) for some, count in ((CODE_LETTERS, 4), (CODE_DIGITS, 2))
    )
    return f"{letters} {digits}"


class OptionCount(Response):
    """How many students chose an option first. ``right`` and ``says`` are absent while answers are hidden."""

    text: str
    count: int
    right: bool | None
    says: str | None


class QuestionCount(Response):
    """First answers to one question."""

    question: int
    text: str
    answered: int
    options: list[OptionCount]


class ClassLesson(Response):
    """A lesson in the teacher's list: whether it is open, and how many have answered something in it."""

    number: int
    title: str
    open: bool
    answered: int


class ClassNews(Response):
    """What a student's page needs to know: the open lessons, and how much they answered of the one they are in.

    ``title``, ``questions`` and ``answered`` are of that lesson, ``newest`` is the one opened last, and ``shown`` the
    address of a page that is shown to all.
    """

    open: list[int]
    newest: int
    newest_title: str
    lesson: int
    title: str
    questions: int
    answered: int
    here: int
    answers_hidden: bool
    asked_to_show: bool
    shown: str | None


class TeacherView(Response):
    """The teacher's page."""

    join: list[str]
    code: str
    here: int
    minutes: float
    newest: int
    fewest_shown: int
    answers_hidden: bool
    asking: bool
    shown: str | None
    turned_away: int
    lessons: list[ClassLesson]
    questions: list[QuestionCount]


class OpenLesson(Request):
    """Open a lesson for the class, or close it."""

    lesson: Annotated[int, Field(ge=0, le=999)]
    open: bool


class HideAnswers(Request):
    hidden: bool


class LeaveClass(Request):
    """Leave the class, or come back: answers of students who have left are not counted."""

    left: bool


class ShowPage(Request):
    """The address of a student's page, sent after they have agreed to show it."""

    address: Annotated[str, Field(min_length=1, max_length=4_000, pattern="^#")]


@dataclass
class _Student:
    """One browser: when it last asked, and the first answer to each question (None: not one of the options)."""

    seen: float
    answers: dict[tuple[int, int], int | None] = field(default_factory=dict)


class Classroom:
    """A class that one server holds. Safe to call from several threads."""

    def __init__(
        self,
        lessons: Callable[[], list[LessonSummary]],
        clock: Callable[[], float] = time.monotonic,
        hosts: Callable[[], list[str]] = list,
    ) -> None:
        self.code, self.teacher = _new_code(), secrets.token_urlsafe(24)
        self.hosts, self._ended_code = hosts, ""
        self.answers_hidden, self.asking = False, False
        self.shown: str | None = None
        self.turned_away = 0  # browsers that could not join: their address had used up its cookies
        self._lessons, self._clock, self._began = lessons, clock, clock()
        first = min(lesson.number for lesson in lessons())
        self._open, self._students, self._lock = [first], dict[str, _Student](), threading.Lock()
        self._left: set[str] = set()

    def matches(self, code: str, *, ended: bool = False) -> bool:
        """Whether this is the code, or that of the class which ended last, in any case and spacing."""
        known = self._ended_code if ended else self.code
        plain, wanted = ("".join(text.split()).upper().encode() for text in (code, known))
        return bool(wanted) and secrets.compare_digest(plain, wanted)

    @property
    def teacher_cookie(self) -> str:
        """Return this class's cookie name: browsers share cookies between the ports of a machine."""
        return f"headscope-teacher-{hashlib.sha256(self.teacher.encode()).hexdigest()[:12]}"

    def is_teacher(self, key: str) -> bool:
        """Whether a key is the teacher's."""
        return secrets.compare_digest(key.encode(), self.teacher.encode())

    def leave(self, client: str, asked: LeaveClass) -> None:
        """Forget a student and count nothing more of them, or let them come back."""
        with self._lock:
            if asked.left:
                self._students.pop(client, None)
                self._left.add(client)
            else:
                self._left.discard(client)

    def news(self, client: str, lesson: int = -1) -> ClassNews | None:
        """What is new for a student in this lesson, who is counted as here; None for one who has left."""
        with self._lock:
            if client in self._left:
                return None
            opened = {one.number: one for one in self._lessons() if one.number in self._open}
            newest = opened[self._open[-1]]
            current = opened.get(lesson, newest)
            student = self._student(client)
            return ClassNews(
                open=sorted(self._open),
                newest=newest.number,
                newest_title=newest.title,
                lesson=current.number,
                title=current.title,
                questions=current.questions,
                answered=sum(number == current.number for number, _ in student.answers),
                here=self._here(),
                answers_hidden=self.answers_hidden,
                asked_to_show=self.asking and self.shown is None,
                shown=self.shown,
            )

    def is_open(self, lesson: int) -> bool:
        """Whether students may read a lesson."""
        return lesson in self._open

    def answered(self, student: str | None, lesson: int, question: int, marked: Marked) -> Marked:
        """Count a student's first answer to a question; return the reply. The student is None if they did not join."""
        with self._lock:
            if student is not None and student not in self._left:
                self._student(student).answers.setdefault((lesson, question), marked.option)
        return Marked(False, "", "withheld") if self.answers_hidden else marked

    def view(self, lesson: Lesson | None, join: list[str], *, few: bool = False) -> TeacherView:
        """The teacher's page: the addresses at which students join, and the counts of one lesson, however few."""
        with self._lock:
            listed = [
                ClassLesson(
                    number=one.number,
                    title=one.title,
                    open=one.number in self._open,
                    answered=self._who_answered(one.number),
                )
                for one in self._lessons()
            ]
            return TeacherView(
                join=join,
                newest=self._open[-1],
                fewest_shown=FEWEST_SHOWN,
                code=self.code,
                here=self._here(),
                minutes=(self._clock() - self._began) / 60,
                answers_hidden=self.answers_hidden,
                asking=self.asking,
                shown=self.shown,
                turned_away=self.turned_away,
                lessons=listed,
                questions=self._counts(lesson, few) if lesson else [],
            )

    def open(self, asked: OpenLesson) -> None:
        """Open or close a lesson; one stays open."""
        numbers = [lesson.number for lesson in self._lessons()]
        if asked.lesson not in numbers:
            raise InputError(f"there is no lesson {asked.lesson}; there are {numbers[0]} to {numbers[-1]}")
        with self._lock:
            rest = [number for number in self._open if number != asked.lesson]
            if not asked.open and not rest:
                raise InputError(f"lesson {asked.lesson} is the only open one; open another first")
            self._open = [*rest, asked.lesson] if asked.open else rest

    def hide_answers(self, asked: HideAnswers) -> None:
        """Hide or show which answers are right, on every page of the class."""
        self.answers_hidden = asked.hidden

    def ask_to_show(self) -> None:
        """Ask on the students' pages who would show theirs."""
        with self._lock:
            self.asking, self.shown = True, None

    def show(self, page: ShowPage) -> None:
        """Show the page of the first student who agrees."""
        with self._lock:
            if not self.asking or self.shown is not None:
                raise InputError("no one is asked to show a page now, or another page is already shown")
            self.shown = page.address

    def stop_showing(self) -> None:
        with self._lock:
            self.asking, self.shown = False, None

    def progress(self) -> str:
        """CSV: a row per student and answered question, students numbered in the order of joining."""
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["student", "lesson", "question", "first answer"])
        with self._lock:
            for index, student in enumerate(self._students.values(), start=1):
                for (lesson, question), option in sorted(student.answers.items()):
                    rows.writerow([index, lesson, question, "other" if option is None else "abcdefgh"[option]])
        return out.getvalue()

    def end(self) -> None:
        """Forget everything about the class, and let no one else join with the old code."""
        with self._lock:
            self._students.clear()
            self._left.clear()
            self.turned_away = 0
            self._open, self.answers_hidden, self.asking, self.shown = self._open[:1], False, False, None
            self._ended_code, self.code, self._began = self.code, _new_code(), self._clock()

    def _student(self, client: str) -> _Student:
        now = self._clock()
        student = self._students.setdefault(client, _Student(now))
        student.seen = now
        return student

    def _here(self) -> int:
        now = self._clock()
        return sum(now - student.seen <= HERE_SECONDS for student in self._students.values())

    def _who_answered(self, lesson: int) -> int:
        return sum(any(number == lesson for number, _ in student.answers) for student in self._students.values())

    def _counts(self, lesson: Lesson, few: bool) -> list[QuestionCount]:
        shown = not self.answers_hidden
        counted = []
        for at, question in enumerate(lesson.questions, start=1):
            first = [
                one.answers[lesson.number, at] for one in self._students.values() if (lesson.number, at) in one.answers
            ]
            tally = [
                (option.text, first.count(k), option.right, option.says) for k, option in enumerate(question.options)
            ]
            if question.numeric:
                tally.append(("other", first.count(None), False, ""))
            if not first:
                tally = []
            elif len(first) < FEWEST_SHOWN and not few:
                right = sum(count for _, count, is_right, _ in tally if is_right)
                tally = [("right", right, True, ""), ("wrong", len(first) - right, False, "")] if shown else []
            options = [
                OptionCount(text=text, count=count, right=is_right if shown else None, says=says if shown else None)
                for text, count, is_right, says in tally
            ]
            counted.append(QuestionCount(question=at, text=question.text, answered=len(first), options=options))
        return counted
