"""The microscope as a notebook widget: the page in a frame, its requests handled by the kernel.

widget.js sends each request of the page's `Source` interface to this widget as a message with an id, and the response
back: a container as a buffer, anything else as JSON. The page itself is sent the same way, so that a saved notebook
holds neither its code nor its data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from headscope.app.export.html import assemble
from headscope.app.pages.media.given_looks import GivenLooks
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import Session
from headscope.app.requests import REQUESTS as SESSION_REQUESTS
from headscope.app.wire import pack
from headscope.errors import HeadscopeError, InputError
from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks
from headscope.scope import Scope

LOOK_ID = "headscope-look"

REQUESTS: dict[str, tuple[type[BaseModel], Callable[[Session, Any], Any]]] = {
    "media": (MediaRequest, Session.look_media),
    **{name: (each.types["asked"], each.respond) for name, each in SESSION_REQUESTS.items()},
}
PLAIN: dict[str, Callable[[Session], Any]] = {
    "model": Session.model,
    "roles": Session.roles,
    "featured": Session.featured,
    "testHeads": Session.test_heads,
}


class Microscope(anywidget.AnyWidget):
    """One look in a notebook, with its model for other texts; or the steps of a run."""

    _esm = Path(__file__).parent / "widget.js"

    def __init__(self, look: Look | StepLooks) -> None:
        super().__init__()
        given = GivenLooks(look) if isinstance(look, StepLooks) else None
        self.session = Session(Scope(look.model), given=given)
        self.name = self.session.adopt(look) if isinstance(look, Look) else self.session.given.infos[0].look
        self.on_msg(self._receive)

    def page(self) -> str:
        """The whole page, with the name of the look to open."""
        return assemble(f'<script type="text/plain" id="{LOOK_ID}">{self.name}</script>')

    def _receive(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        number = message.get("id")
        try:
            response = self._respond(str(message.get("ask")), message.get("body"))
        except HeadscopeError as error:
            self.send({"id": number, "problem": {"kind": type(error).__name__, "message": str(error)}})
            return
        if isinstance(response, bytes):
            self.send({"id": number}, buffers=[response])
        else:
            self.send({"id": number, "value": to_jsonable_python(response)})

    def _respond(self, ask: str, body: Any) -> Any:
        if ask == "page":
            return self.page()
        if ask in PLAIN:
            return PLAIN[ask](self.session)
        if ask not in REQUESTS:
            raise InputError(f"unknown request {ask!r}; a notebook handles {', '.join([*PLAIN, *REQUESTS])}")
        request, respond = REQUESTS[ask]
        response = respond(self.session, _read(request, body))
        return pack(*response) if isinstance(response, tuple) else response


def _read(request: type[BaseModel], body: Any) -> BaseModel:
    try:
        return request.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
