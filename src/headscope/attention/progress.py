"""Report how far long work has come to a callback set by the caller, one per thread or asyncio task.

Where work reports, and at its other pause points (between layers, between bands of ``blockwise``), whoever is called
may let other work run before it returns, unless the work is ``uninterrupted``, or stop it by an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the task, the steps done, and the steps in all."""

_callback: ContextVar[ProgressCallback | None] = ContextVar("headscope_progress", default=None)

_uninterrupted: ContextVar[bool] = ContextVar("headscope_uninterrupted", default=False)
_pause: ContextVar[Callable[[], None] | None] = ContextVar("headscope_pause", default=None)


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


def report_progress(task: str, done: int, total: int) -> None:
    """Call the progress callback of this context, if there is one."""
    callback = _callback.get()
    if callback is not None:
        callback(task, done, total)
    pause_point()


def pause_point() -> None:
    """Let other work run, or be stopped, if whoever runs this one says so."""
    pause = _pause.get()
    if pause is not None:
        pause()


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """Call this at every pause point of the work inside the block."""
    token = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(token)


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
