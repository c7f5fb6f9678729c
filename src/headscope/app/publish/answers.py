"""Responses of pages that need no model, as files: lessons, film, real heads, cards, lab, worksheets, censuses.

A file is named by the request it answers: a path, and after a space the JSON of its body where it has one. Many small
answers together are a file by the beginning that their requests share: a card with other numbers of heads, a census's
head, another sentence, a worksheet with other numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from pydantic_core import to_jsonable_python

from headscope.app.pages import REAL_HEADS, by_hand, cards, four_heads, one_or_many
from headscope.app.pages.census import Censuses
from headscope.app.pages.course import lessons
from headscope.app.pages.film import Films
from headscope.app.wire import pack
from headscope.lab.teach import lessons as course
from headscope.lab.teach.course.questions import TOLD_AT, QuizQuestion
from headscope.lab.teach.worked_example import WorkedExample
from headscope.lab.teach.worksheet import worksheet

UNFORESEEN = "123456789.123"  # a number that is no option of any question

Files = dict[str, bytes]


def stored_answers(censuses: Censuses) -> Files:
    """Return every stored response by its request."""
    found = {key: _json(value) for key, value in _values(censuses)}
    films = Films()
    names = films.names()
    for name in names[:1]:
        found["film"] = found[f"film?name={name}"] = pack(*films.film(name))
    found["real-heads"] = REAL_HEADS.read_bytes()
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
    yield "lab/worked", WorkedExample()
    yield "lab/by-hand", by_hand.hand_roles()
    yield "lab/sentence {}", four_heads.sentence(four_heads.SentenceRequest())
    yield "lab/one-or-many", one_or_many.results()
    yield "class", None
    yield "censuses", censuses.summaries()


def stored_marks() -> bytes:
    """Replies to the answers of every lesson's questions, by lesson."""
    marks = {number: [_replies(each) for each in course.lesson(number).questions] for number, *_ in course.contents()}
    return _json(marks)


def _replies(question: QuizQuestion) -> dict[str, Any]:
    attempts = range(1, TOLD_AT + 1)
    options = []
    for letter, option in zip("abcdefgh", question.options, strict=False):
        answer = option.text if question.numeric else letter
        options.append({"text": option.text, "replies": [question.mark(answer, at) for at in attempts]})
    other = [question.mark(UNFORESEEN, at) for at in attempts] if question.numeric else []
    return {"numeric": question.numeric, "options": options, "other": other}


def _body(value: Any) -> str:
    """JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json(value: Any) -> bytes:
    return _body(to_jsonable_python(value)).encode()


SENTENCES = 1_000  # seeds that the page draws from
WORKSHEETS = 40

Group = dict[str, Any]


def answer_groups(censuses: Censuses) -> Iterator[tuple[str, Group]]:
    """For each group of requests, the beginning they share, and the response to each."""
    for line in cards.card_list():
        yield f"card {{{_body({'name': line.name})[1:-1]},", card_group(line.name)
    yield (
        'lab/sentence {"seed"',
        {
            f"lab/sentence {_body({'seed': seed})}": four_heads.sentence(four_heads.SentenceRequest(seed=seed))
            for seed in range(SENTENCES)
        },
    )
    yield (
        "worksheet?",
        {
            f"worksheet?seed={seed}&solved={str(solved).lower()}": worksheet(seed).shown(solved=solved)
            for seed in range(WORKSHEETS)
            for solved in (False, True)
        },
    )
    yield from census_groups(censuses)


def census_groups(censuses: Censuses) -> Iterator[tuple[str, Group]]:
    """Every head of every census, with each question."""
    for number, census in censuses.opened().items():
        shown, path = census.table[0], f"censuses/{number}/head"
        for head in (f"{site.name}.{head}" for site in shown.sites for head in range(site.n_heads)):
            yield (
                f"{path}?{_query(head=head)}&",
                {
                    f"{path}?{_query(head=head, question=each.name)}": census.head(head, each.name)
                    for each in shown.quantities
                },
            )


def census_comparisons(censuses: Censuses) -> Iterator[tuple[str, bytes]]:
    """Yield every pair of censuses."""
    numbers = list(censuses.opened())
    for before in numbers:
        for after in numbers:
            if before != after:
                yield f"censuses/{before}/against/{after}", pack(*censuses.compare(before, after))


def written(group: Group) -> bytes:
    """A group as JSON."""
    return _body({request: to_jsonable_python(answer) for request, answer in group.items()}).encode()


def card_group(name: str) -> Group:
    """A card with every number of heads and KV heads that its page offers."""
    group: Group = {}
    published = cards.read_card(cards.CardRequest(name=name))
    others = [each.n_heads for each in published.head_choices if each.n_heads != published.n_heads]
    for heads in (None, *others):
        shown = cards.read_card(cards.CardRequest(name=name, n_heads=heads))
        for kv_heads in (None, *(each.n_kv_heads for each in shown.kv_choices)):
            asked = _body({"name": name, "n_heads": heads, "n_kv_heads": kv_heads})
            group[f"card {asked}"] = cards.read_card(cards.CardRequest(name=name, n_heads=heads, n_kv_heads=kv_heads))
    return group


def _query(**fields: str) -> str:
    """Fields of an address as JavaScript's URLSearchParams writes them."""
    return urlencode(fields, safe="*-._")
