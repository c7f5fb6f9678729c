"""The models a page has at hand: those it was started with, and those that were made at its desk."""

from __future__ import annotations

import threading
from collections import OrderedDict

from headscope.app.session import Session
from headscope.errors import InputError
from headscope.scope import Scope

KEPT_MADE = 8  # models made on the lab's pages; the oldest goes


class Shelf:
    """Sessions by their model's name; the first is what a page opens on."""

    def __init__(self, *sessions: Session) -> None:
        self._lent = {session.scope.shape.name: session for session in sessions}
        self._made: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        return [*self._lent, *self._made]

    def session(self, name: str | None = None) -> Session:
        """The session of this model, or of the first one."""
        with self._lock:
            if name is None and self._lent:
                return next(iter(self._lent.values()))
            found = self._lent.get(name or "") or self._made.get(name or "")
        if found is None:
            raise InputError(f"there is no model {name!r} on this page; it has {', '.join(self.names()) or 'none'}")
        return found

    def put(self, name: str, scope: Scope) -> None:
        """Keep a model that was made here, so that the microscope opens it like any other."""
        with self._lock:
            self._made[name] = Session(scope)
            self._made.move_to_end(name)
            while len(self._made) > KEPT_MADE:
                self._made.popitem(last=False)
