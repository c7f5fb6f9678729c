"""Answers to requests that a visitor varies, stored in groups: one compressed file answers all that begin alike.

A card with other numbers of heads, a head of a census, another sentence, a worksheet with other numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from pydantic_core import to_jsonable_python

from headscope.app.pages import cards, four_heads
from headscope.app.pages.census import Censuses
from headscope.app.pages.course import lessons
from headscope.app.wire import pack

SENTENCES = 1_000  # seeds that the page draws from
WORKSHEETS = 40

Group = dict[str, Any]


def answer_groups(censuses: Censuses) -> Iterator[tuple[str, Group]]:
    """The beginning that the requests of a group share, and the answer to each."""
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
            f"worksheet?seed={seed}&solved={str(solved).lower()}": lessons.sheet(seed, solved=solved)
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
    """Every census beside every other."""
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


def _body(value: Any) -> str:
    """JSON as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
