"""Answers of the pages that need no model, as files: lessons and questions, the film, the cards, the lab, censuses.

A file is named by the request it answers: a path, and after a space the JSON of its body where it has one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from headscope.app.pages import by_hand, cards, four_heads, one_or_many
from headscope.app.pages.census import Censuses
from headscope.app.pages.course import lessons
from headscope.app.pages.film import Films
from headscope.app.wire import pack
from headscope.lab.teach import lessons as course
from headscope.lab.teach.course.questions import TOLD_AT, QuizQuestion
from headscope.lab.teach.exercises import ARROWS, BOXES, InventTwoHeads, check_fork

UNFORESEEN = "123456789.123"  # a number that is no option of any question

Files = dict[str, bytes]


def stored_answers(censuses: Censuses) -> Files:
    """Every answer by its request."""
    found = {key: _json(value) for key, value in _values(censuses)}
    films = Films()
    names = films.names()
    for name in names[:1]:
        found["film"] = found[f"film?name={name}"] = pack(*films.film(name))
    for number, census in censuses.opened().items():
        found[f"censuses/{number}"] = pack(*census.table)
    return found


def _values(censuses: Censuses) -> Iterator[tuple[str, Any]]:
    listed = lessons.contents()
    yield "lessons", listed
    for lesson in listed.lessons:
        yield f"lessons/{lesson.number}", lessons.lesson(lesson.number)
    yield "films", Films().names()
    yield "cards", cards.card_list()
    yield "lab/worked {}", by_hand.worked(by_hand.WorkedRequest())
    yield "lab/exercise", by_hand.exercise()
    yield "lab/exercise/answers", vars(InventTwoHeads())
    yield "lab/fork/remarks", fork_remarks()
    yield "lab/by-hand", by_hand.hand_roles()
    yield "lab/sentence {}", four_heads.sentence(four_heads.SentenceRequest())
    yield "lab/one-or-many", one_or_many.results()
    yield "class", None
    yield "censuses", censuses.summaries()


def fork_remarks() -> dict[str, Any]:
    """What is said of every arrow between two boxes, drawn or missing."""
    pairs = [(start, end) for start in BOXES for end in BOXES if start != end]
    drawn = {f"{start} > {end}": check_fork([(start, end)]).remarks[0] for start, end in pairs}
    missing = dict(zip((f"{start} > {end}" for start, end in ARROWS), check_fork([]).remarks, strict=True))
    return {"drawn": drawn, "missing": missing}


def stored_marks() -> bytes:
    """Replies to the answers of every lesson's questions, by lesson."""
    marks = {number: [_replies(each) for each in course.lesson(number).questions] for number, *_ in course.contents()}
    return _json(marks)


def _replies(question: QuizQuestion) -> dict[str, Any]:
    attempts = range(1, TOLD_AT + 1)
    options = []
    for letter, option in zip("abcdefgh", question.options, strict=False):
        answer = option.text if question.numeric else letter
        options.append({"text": option.text, "replies": [question.mark(answer, at).to_dict() for at in attempts]})
    other = [question.mark(UNFORESEEN, at).to_dict() for at in attempts] if question.numeric else []
    return {"numeric": question.numeric, "options": options, "other": other}


def _body(value: Any) -> str:
    """JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json(value: Any) -> bytes:
    return _body(to_jsonable_python(value)).encode()
