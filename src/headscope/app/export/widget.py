"""The microscope in a notebook: the same page in a frame, its questions answered by the kernel.

The page asks through its `Source` interface; widget.js carries each question to this widget as a message with an id,
and the answer back: a container as a buffer, anything else as JSON. The page itself travels the same way, so that a
saved notebook holds neither the program nor the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
from pydantic import BaseModel, ValidationError

from headscope.app.export.html import assemble
from headscope.app.pages import schema
from headscope.app.pages.microscope import Session
from headscope.app.wire import pack
from headscope.errors import HeadscopeError, InputError
from headscope.heads.look.look import Look
from headscope.scope import Scope

LOOK_ID = "headscope-look"

REQUESTS: dict[str, tuple[type[BaseModel], Callable[[Session, Any], Any]]] = {
    "look": (schema.LookRequest, Session.look),
    "weights": (schema.WeightsRequest, Session.weights),
    "mix": (schema.MixRequest, Session.mix),
    "token": (schema.TokenRequest, Session.token),
    "predict": (schema.PredictRequest, Session.predict),
    "importance": (schema.ImportanceRequest, Session.importance),
}
PLAIN: dict[str, Callable[[Session], BaseModel]] = {
    "model": Session.model,
    "roles": Session.roles,
    "featured": Session.featured,
    "testHeads": Session.test_heads,
}


class Microscope(anywidget.AnyWidget):
    """One look, shown in a notebook, with its model at hand for other texts."""

    _esm = Path(__file__).parent / "widget.js"

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.session = Session(Scope(look.model))
        self.name = self.session.adopt(look)
        self.on_msg(self._hear)

    def page(self) -> str:
        """The whole page, told which look to open."""
        return assemble(f'<script type="text/plain" id="{LOOK_ID}">{self.name}</script>')

    def _hear(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        number = message.get("id")
        try:
            told = self._answer(str(message.get("ask")), message.get("body"))
        except HeadscopeError as error:
            self.send({"id": number, "problem": {"kind": type(error).__name__, "message": str(error)}})
            return
        if isinstance(told, bytes):
            self.send({"id": number}, buffers=[told])
        else:
            self.send({"id": number, "value": told})

    def _answer(self, ask: str, body: Any) -> Any:
        if ask == "page":
            return self.page()
        if ask in PLAIN:
            return PLAIN[ask](self.session).model_dump(mode="json")
        if ask not in REQUESTS:
            raise InputError(f"the page asked for {ask!r}; a notebook answers {', '.join([*PLAIN, *REQUESTS])}")
        request, answer = REQUESTS[ask]
        told = answer(self.session, _read(request, body))
        if isinstance(told, BaseModel):
            return told.model_dump(mode="json")
        card, arrays = told
        return pack(card.model_dump(mode="json"), arrays)


def _read(request: type[BaseModel], body: Any) -> BaseModel:
    try:
        return request.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
