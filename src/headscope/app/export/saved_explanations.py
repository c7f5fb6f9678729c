"""What an exported file explains: one trace, the arrows of its heads, and the cut of each arrow's main writer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from headscope.app.pages.explain import CutPathRequest, TraceRequest, TraceResponse, WhyRequest, WhyResponse
from headscope.app.pages.microscope import Session
from headscope.errors import HeadscopeError

MOST_ARROWS = 12
MOST_TOKENS = 256  # past it a file explains nothing: each explanation would take seconds


def explained(session: Session, look: str, last: int) -> dict[str, Any]:
    """Responses by name; what this model or text refuses is left out, and the page says that it needs headscope."""
    found: dict[str, Any] = {"trace": None, "arrows": {}, "cuts": {}}
    if last >= MOST_TOKENS:
        return found
    with contextlib.suppress(HeadscopeError):
        trace = found["trace"] = session.trace(TraceRequest(look=look, position=last))
        explain_arrows(session, (look, last), _arrows(trace), found)
    return found


def explain_arrows(
    session: Session, place: tuple[str, int], arrows: Sequence[tuple[str, int]], found: dict[str, Any]
) -> None:
    """Add the split of the first of these arrows (a head, and a key that it reads), and the cut of its main writer."""
    look, last = place
    for head, key in arrows[:MOST_ARROWS]:
        why = session.why(WhyRequest(look=look, head=head, query=last, key=key))
        found["arrows"][f"{head} {last} {key} mean"] = why
        writer = _main_writer(why)
        if writer is not None:
            asked = CutPathRequest(look=look, writer=writer, reader=head, query=last, key=key)
            found["cuts"][f"{writer} {head} k {last} {key}"] = session.cut_path(asked)


def _arrows(trace: TraceResponse) -> list[tuple[str, int]]:
    """Heads of the trace and the keys that they read, those with the largest share first."""
    steps = [step for step in trace.steps if step.kind == "head" and not step.rests]
    reads = [(abs(read.share), step.name, read.place.position) for step in steps for read in step.reads]
    return [(head, key) for _, head, key in sorted(reads, reverse=True)]


def _main_writer(why: WhyResponse) -> str | None:
    """The writer at the key that the page pins first: the largest with the sign of the total."""
    sign = -1.0 if why.total < 0 else 1.0
    return next((each.name for each in why.answered if each.value * sign > 0 and each.kind != "reader"), None)
