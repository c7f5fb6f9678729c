"""What the page asks of a session, by name: for the routes of the server, and for a notebook's widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_type_hints

from headscope.app.pages.microscope import Session


class SessionRequest(NamedTuple):
    """The method that answers a request, and how long it takes: fixed, or by the length of its text."""

    respond: Callable[[Session, Any], Any]
    kind: Literal["text", "short", "long"]

    @property
    def types(self) -> dict[str, Any]:
        """What is ``asked``, and what is returned: a response, or a pair of a response and its arrays."""
        return get_type_hints(self.respond)


REQUESTS = {
    "look": SessionRequest(Session.look, "text"),
    "weights": SessionRequest(Session.weights, "text"),
    "attribution": SessionRequest(Session.attribution, "text"),
    "received": SessionRequest(Session.received, "text"),
    "importance": SessionRequest(Session.importance, "text"),
    "token": SessionRequest(Session.token, "short"),
    "predict": SessionRequest(Session.predict, "text"),
    "lens": SessionRequest(Session.lens, "long"),
    "patching": SessionRequest(Session.patching, "long"),
    "sources": SessionRequest(Session.sources, "long"),
    "carriers": SessionRequest(Session.carriers, "long"),
    "why": SessionRequest(Session.why, "long"),
    "trace": SessionRequest(Session.trace, "long"),
    "cut-path": SessionRequest(Session.cut_path, "long"),
}
