"""The models a page has at hand: those it was started with, those made at its desk, and those it was let to open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from headscope.app.pages.microscope import Session
from headscope.errors import InputError
from headscope.scope import Scope

KEPT_MADE = 96  # small models made on the lab's pages: a class of 64 has one each; the one unused for longest goes
KEPT_OPENED = 2  # models opened from the page, which may weigh gigabytes

Opener = Callable[[str], Scope]


class Shelf:
    """Sessions by their model's name; the first is what a page opens on."""

    def __init__(self, *sessions: Session, opener: Opener | None = None) -> None:
        self._lent = {session.scope.shape.name: session for session in sessions}
        if len(self._lent) < len(sessions):
            names = ", ".join(session.scope.shape.name for session in sessions)
            raise InputError(f"two of these models have one name ({names}); rename a folder")
        self._made: OrderedDict[str, Session] = OrderedDict()
        self._opened: OrderedDict[str, Session] = OrderedDict()
        self._opener = opener
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @property
    def opens(self) -> bool:
        """Whether the page may name other models."""
        return self._opener is not None

    def sessions(self) -> dict[str, Session]:
        """Every model's session by its name, in the order in which a page lists them."""
        with self._lock:
            return {**self._lent, **self._opened, **self._made}

    def names(self) -> list[str]:
        return list(self.sessions())

    def open(self, name: str) -> str:
        """Open another model by its hub name or folder, if this page may; what it is called on the shelf."""
        if self._opener is None:
            raise InputError(
                f"this page may show {', '.join(self.names()) or 'no model'} and open no other; for {name!r} start it "
                "with `headscope serve --allow-models`"
            )
        with self._opening:  # one at a time: two large models may not fit beside each other
            return name if name in self.sessions() else self._put_opened(Session(self._opener(name)))

    def session(self, name: str | None = None) -> Session:
        """The session of this model, or of the first one."""
        here = self.sessions()
        wanted = next(iter(self._lent), None) if name is None else name
        if wanted is None or wanted not in here:
            raise InputError(f"there is no model {name!r} on this page; it has {', '.join(here) or 'none'}")
        with self._lock:
            for kept in (self._opened, self._made):
                if wanted in kept:
                    kept.move_to_end(wanted)
        return here[wanted]

    def put(self, name: str, scope: Scope) -> None:
        """Keep a model that was made here, so that the microscope opens it like any other."""
        with self._lock:
            _keep(self._made, name, Session(scope), KEPT_MADE)

    def _put_opened(self, session: Session) -> str:
        called = session.scope.shape.name
        with self._lock:
            if called in self._lent:
                raise InputError(f"this page already shows another model that is called {called!r}; rename the folder")
            _keep(self._opened, called, session, KEPT_OPENED)
        return called


def _keep(kept: OrderedDict[str, Session], name: str, session: Session, most: int) -> None:
    kept[name] = session
    kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)
