"""Explanations that a site holds: a trace of each example's prediction, and why the heads in it look where they do."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from pydantic_core import to_jsonable_python

from headscope.app.export.saved_explanations import explain_arrows, explained
from headscope.app.pages.microscope import LookRequest, Session
from headscope.errors import HeadscopeError

EXAMPLES = (
    "My white horse drank at the river. My white horse drank at the",
    "Then Mary and John sat down, and John handed the book to",
    "The horse crossed the road because it was tired.",
    "In the basket she found bread, butter, wine, milk,",
    '"Will you come?" asked the captain. "Not now," said the boy. "Then when?" asked the',
    "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n"
    "    return width * height *",
)
"""The page's own examples, but for the longest (web/src/examples.json)."""


def stored_explanations(session: Session, texts: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Each text that this model can explain, with its answers as JSON."""
    for text in dict.fromkeys(texts):
        told, _ = session.look(LookRequest(text=text))
        last = len(told.tokens) - 1
        found = explained(session, told.look, last)
        if not found["arrows"]:  # no trace (of a prediction of BERT's), or no head in it: what heads read most
            with contextlib.suppress(HeadscopeError):
                explain_arrows(session, (told.look, last), strongest_arrows(session, told.look, last), found)
        if found["trace"] is not None or found["arrows"]:
            yield text, json.dumps(to_jsonable_python(found), ensure_ascii=False, separators=(",", ":")).encode()


def strongest_arrows(session: Session, look: str, query: int) -> list[tuple[str, int]]:
    """Every head with the key that it reads most at this query, strongest first."""
    opened = session.kept.look(look)
    assert opened is not None
    found = []
    for head in opened.look.shape.heads():
        weight, key = opened.look.pattern(head)[query].max(-1)
        found.append((float(weight), str(head), int(key)))
    return [(head, key) for _, head, key in sorted(found, reverse=True)]
