"""Report how far long work has come to a callback set by the caller, one per thread or asyncio task.

Whoever is called may let other work run before it returns, unless the work is ``uninterrupted``, or stop it by an
error, unless it is ``restoring``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the task, the steps done, and the steps in all."""

_callback: ContextVar[ProgressCallback | None] = ContextVar("headscope_progress", default=None)

_uninterrupted: ContextVar[bool] = ContextVar("headscope_uninterrupted", default=False)
_restoring: ContextVar[bool] = ContextVar("headscope_restoring", default=False)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Say that inside this block no other work may use what this one uses, as it is changed for a while."""
    token = _uninterrupted.set(True)
    try:
        yield
    finally:
        _uninterrupted.reset(token)


def may_be_interrupted() -> bool:
    """Whether other work may run between two steps of this one."""
    return not _uninterrupted.get()


@contextmanager
def restoring() -> Iterator[None]:
    """Say that this block puts back what the work has changed: whoever stops the work waits for its end."""
    token = _restoring.set(True)
    try:
        yield
    finally:
        _restoring.reset(token)


def may_be_stopped() -> bool:
    """Whether the work may be stopped between two steps."""
    return not _restoring.get()


def report_progress(task: str, done: int, total: int) -> None:
    """Call the progress callback of this context, if there is one."""
    callback = _callback.get()
    if callback is not None:
        callback(task, done, total)


def listening() -> bool:
    """Whether this context has a progress callback."""
    return _callback.get() is not None


@contextmanager
def progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Report the progress of the work inside the block to this callback."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)
