"""Explanations in an exported file or website: a trace, its heads' arrows, and a cut of each arrow's main writer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from headscope.app.pages.explain import CutPathRequest, TraceRequest, WhyRequest
from headscope.app.pages.microscope import LookRequest, Session
from headscope.errors import HeadscopeError

MOST_ARROWS = 12
MOST_TOKENS = 256  # past it a file explains nothing: each explanation would take seconds


def explained(session: Session, look: str, last: int) -> dict[str, Any]:
    """Return the explanations of a look by request name, without those that this model or text does not allow."""
    found: dict[str, Any] = {"trace": None, "arrows": {}, "cuts": {}}
    if last >= MOST_TOKENS:
        return found
    with contextlib.suppress(HeadscopeError):
        trace = found["trace"] = session.trace(TraceRequest(look=look, position=last))
        steps = [step for step in trace.steps if step.kind == "head" and not step.rests]
        reads = [(abs(read.share), step.name, read.place.position) for step in steps for read in step.reads]
        _explain_arrows(session, (look, last), reads, found)
    return found


def _explain_arrows(
    session: Session, place: tuple[str, int], arrows: Sequence[tuple[float, str, int]], found: dict[str, Any]
) -> None:
    """Add the split of the largest of these arrows (size, head, and key that it reads), and the cut of its writer.

    That is the writer at the key that the page pins first: the largest with the sign of the total.
    """
    look, last = place
    for _, head, key in sorted(arrows, reverse=True)[:MOST_ARROWS]:
        why = session.why(WhyRequest(look=look, head=head, query=last, key=key))
        found["arrows"][f"{head} {last} {key} mean"] = why
        sign = -1.0 if why.total < 0 else 1.0
        writers = (each.name for each in why.answered if each.value * sign > 0 and each.kind != "reader")
        if (writer := next(writers, None)) is not None:
            asked = CutPathRequest(look=look, writer=writer, reader=head, query=last, key=key)
            found["cuts"][f"{writer} {head} k {last} {key}"] = session.cut_path(asked)


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
                _explain_arrows(session, (told.look, last), _strongest_arrows(session, told.look, last), found)
        if found["trace"] is not None or found["arrows"]:
            yield text, json.dumps(to_jsonable_python(found), ensure_ascii=False, separators=(",", ":")).encode()


def _strongest_arrows(session: Session, look: str, query: int) -> list[tuple[float, str, int]]:
    """Every head with the key that it reads most at this query, and that weight."""
    opened = session.kept.look(look)
    assert opened is not None
    found = []
    for head in opened.look.shape.heads():
        weight, key = opened.look.pattern(head)[query].max(-1)
        found.append((float(weight), str(head), int(key)))
    return found
