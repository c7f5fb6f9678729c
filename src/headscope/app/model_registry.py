"""The models a server shows: those it was started with, those made on the lab's pages, and those it may open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from headscope.app.lru import LRU
from headscope.app.pages.kept_looks import KeptLooks
from headscope.app.pages.microscope import Session
from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.models.fetch import is_gguf
from headscope.scope import Scope

KEPT_MADE = 96  # small models made on the lab's pages: a class of 64 has one each; the least recently used one goes
KEPT_OF_ONE = 8  # of them made by one client
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
    """Sessions by model name; the first is the page's default. Safe to use from several threads.

    A model made on a lab page belongs to the client that made it: others neither see nor find it.
    """

    def __init__(self, *sessions: Session, opener: Opener | None = None) -> None:
        self._given = {session.scope.shape.name: session for session in sessions}
        if len(self._given) < len(sessions):
            names = ", ".join(session.scope.shape.name for session in sessions)
            raise InputError(f"two of these models have one name ({names}); rename a folder")
        self._kept = KeptLooks()
        for session in sessions:
            session.kept = session.kept.move_to(self._kept)
        self._made: LRU[tuple[str, str], Session] = LRU(KEPT_MADE)
        self._opened: LRU[str, Session] = LRU(KEPT_OPENED)
        self._opener = opener
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @property
    def opens(self) -> bool:
        """Whether the page may open other models by name."""
        return self._opener is not None

    def sessions(self, client: str = "") -> dict[str, Session]:
        """A client's sessions by model name, in the order of the page's list."""
        with self._lock:
            made = {name: session for (maker, name), session in self._made.items() if maker == client}
            return {**self._given, **self._opened, **made}

    def names(self, client: str = "") -> list[str]:
        return list(self.sessions(client))

    def open(self, name: str) -> str:
        """Open another model by its hub name or folder, if this page may; return its name here."""
        if self._opener is None:
            raise InputError(
                f"this server shows only {', '.join(self.names()) or 'no model'}; to open {name!r}, restart it with "
                "`headscope serve --allow-models`"
            )
        with self._opening:  # one at a time: two large models may not fit beside each other
            if name in self.sessions():
                return name
            if _is_other_file(name):
                raise InputError(f"{name!r} is not a model; give a model's name on the hub, or its folder")
            return self._add_opened(Session(self._opener(name)))

    def session(self, name: str | None = None, client: str = "") -> Session:
        """The session of this model, or of the first one."""
        wanted = next(iter(self._given), "") if name is None else name
        with self._lock:
            if (client, wanted) in self._made:
                return self._made[client, wanted]
            for sessions in (self._opened, self._given):
                if wanted in sessions:
                    return sessions[wanted]
        known = ", ".join(self.names(client)) or "none"
        raise InputError(f"there is no model {name!r} on this page; it has {known}")

    def add(self, name: str, scope: Scope, client: str = "") -> None:
        """Add a model that a client made on a page, so that the microscope can open it by name."""
        session = Session(scope)
        session.kept = self._kept.part()
        with self._lock:
            before = self._made.entries()
            self._made[client, name] = session
            of_one = [key for key in self._made if key[0] == client]
            for key in of_one[:-KEPT_OF_ONE]:
                del self._made[key]
            _forget_dropped(before, self._made.entries())

    def _add_opened(self, session: Session) -> str:
        name = session.scope.shape.name
        session.kept = self._kept.part()
        with self._lock:
            if name in self._given:
                raise InputError(f"this page already shows another model that is called {name!r}; rename the folder")
            before = self._opened.entries()
            self._opened[name] = session
            _forget_dropped(before, self._opened.entries())
        return name


def _forget_dropped(before: list[Session], after: list[Session]) -> None:
    """Drop the looks of sessions that are gone: they would hold their models."""
    for session in before:
        if not any(session is other for other in after):
            session.kept.forget()


def _is_other_file(name: str) -> bool:
    """Return whether a name is a file or folder that is not a model; no one is told what else there is."""
    try:
        path = Path(name).expanduser()
        local = path.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1
        return local and not ((path / "config.json").is_file() or (path.is_file() and is_gguf(path)))
    except (OSError, ValueError, RuntimeError):  # a name that cannot be one of a file, or of a user
        return True
