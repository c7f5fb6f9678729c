"""Explanations that a site holds: a trace of each example's prediction, and why the heads in it look where they do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic_core import to_jsonable_python

from headscope.app.export.saved_explanations import explained
from headscope.app.pages.microscope import LookRequest, Session

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
        found = explained(session, told.look, len(told.tokens) - 1)
        if found["trace"] is not None:
            yield text, json.dumps(to_jsonable_python(found), ensure_ascii=False, separators=(",", ":")).encode()
