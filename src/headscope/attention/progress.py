"""Who is told how far long work has come. A ContextVar, so that two threads do not hear each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Told what is being done, how many steps are done, and how many there are."""

_listener: ContextVar[Listener | None] = ContextVar("headscope_progress", default=None)


def tell(what: str, done: int, total: int) -> None:
    """Say how far it is, to whoever listens."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside the block, long work in this thread says how far it is."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
