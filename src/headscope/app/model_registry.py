"""The models a server shows: those it was started with, those made on the lab's pages, and those it may open."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pydantic import Field

from headscope.app.lru import LRU
from headscope.app.pages.microscope import Session
from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.scope import Scope

KEPT_MADE = 96  # small models made on the lab's pages: a class of 64 has one each; the least recently used one goes
KEPT_OPENED = 2  # models opened from the page, which may take gigabytes

Opener = Callable[[str], Scope]


class ModelList(Response):
    """The models of this page; it opens on the first. ``opens``: whether it may open others by name."""

    names: list[str]
    titles: list[str] = Field(description="each model's name in words")
    opens: bool = False


class OpenModelRequest(Request):
    """A model to open, by its name on the hub or its folder on the server's machine."""

    name: str = Field(min_length=1, max_length=512)


class OpenModelResponse(Response):
    """The name of an opened model on this page."""

    name: str


class ModelRegistry:
    """Sessions by model name; the first is the page's default. Safe to use from several threads."""

    def __init__(self, *sessions: Session, opener: Opener | None = None) -> None:
        self._given = {session.scope.shape.name: session for session in sessions}
        if len(self._given) < len(sessions):
            names = ", ".join(session.scope.shape.name for session in sessions)
            raise InputError(f"two of these models have one name ({names}); rename a folder")
        self._made: LRU[str, Session] = LRU(KEPT_MADE)
        self._opened: LRU[str, Session] = LRU(KEPT_OPENED)
        self._opener = opener
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @property
    def opens(self) -> bool:
        """Whether the page may open other models by name."""
        return self._opener is not None

    def sessions(self) -> dict[str, Session]:
        """Every model's session by its name, in the order of the page's list."""
        with self._lock:
            return {**self._given, **self._opened, **self._made}

    def names(self) -> list[str]:
        return list(self.sessions())

    def open(self, name: str) -> str:
        """Open another model by its hub name or folder, if this page may; return its name here."""
        if self._opener is None:
            raise InputError(
                f"this page may show {', '.join(self.names()) or 'no model'} and open no other; for {name!r} start it "
                "with `headscope serve --allow-models`"
            )
        with self._opening:  # one at a time: two large models may not fit beside each other
            return name if name in self.sessions() else self._add_opened(Session(self._opener(name)))

    def session(self, name: str | None = None) -> Session:
        """The session of this model, or of the first one."""
        wanted = next(iter(self._given), "") if name is None else name
        with self._lock:
            for sessions in (self._made, self._opened, self._given):
                if wanted in sessions:
                    return sessions[wanted]
        raise InputError(f"there is no model {name!r} on this page; it has {', '.join(self.names()) or 'none'}")

    def add(self, name: str, scope: Scope) -> None:
        """Add a model that was made on a page, so that the microscope can open it by name."""
        with self._lock:
            self._made[name] = Session(scope)

    def _add_opened(self, session: Session) -> str:
        name = session.scope.shape.name
        with self._lock:
            if name in self._given:
                raise InputError(f"this page already shows another model that is called {name!r}; rename the folder")
            self._opened[name] = session
        return name
