"""Report how far long work has come to a callback set by the caller, one per thread or asyncio task.

Where work reports, and at its other pause points (between layers, between bands of ``blockwise``), whoever is called
may let other work run before it returns, unless the work is ``uninterrupted``, or stop it by an error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

from headscope.checked import checked

T = TypeVar("T")
ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the task, the steps done, and the steps in all."""

QUIET, LINE_EVERY = 1.0, 10.0
"""Seconds before progress is shown, and between two lines of it where there is no terminal."""

_shows = True
_callback: ContextVar[ProgressCallback | None] = ContextVar("headscope_progress", default=None)

_uninterrupted: ContextVar[bool] = ContextVar("headscope_uninterrupted", default=False)
_pause: ContextVar[Callable[[], None] | None] = ContextVar("headscope_pause", default=None)


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def uninterrupted() -> AbstractContextManager[None]:
    """Let no other work run at pause points inside the block, which changes what that work would use."""
    return setting(_uninterrupted, True)


def may_be_interrupted() -> bool:
    """Whether other work may run between two steps of this one."""
    return not _uninterrupted.get()


def report_progress(task: str, done: int, total: int) -> None:
    """Call the progress callback of this context, if there is one."""
    callback = _callback.get()
    if callback is not None:
        callback(task, done, total)
    pause_point()


def counting(task: str, total: int | Callable[[], int | None] | None) -> Callable[[int], None]:
    """Return a function that reports the sum of what it is given; work whose end is not known is not reported."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if (known := total() if callable(total) else total) is not None:
            report_progress(task, min(done, known), known)

    return advance


def pause_point() -> None:
    """Let other work run, or stop, if the caller says so."""
    pause = _pause.get()
    if pause is not None:
        pause()


def pausing(pause: Callable[[], None]) -> AbstractContextManager[None]:
    """Call this at every pause point of the work inside the block."""
    return setting(_pause, pause)


def progress_callback(callback: ProgressCallback) -> AbstractContextManager[None]:
    """Report the progress of the work inside the block to this callback."""
    return setting(_callback, callback)


@checked
def progress(shown: bool) -> None:
    """Show the progress of Python calls of more than a second on stderr, or (with False) never."""
    global _shows
    _shows = shown


@contextmanager
def showing() -> Iterator[None]:
    """Show how far the work in the block is, unless something listens already or progress is off."""
    if not _shows or _callback.get() is not None:
        yield
        return
    line = _Line()
    try:
        with progress_callback(line):
            yield
    finally:
        if line.rewrites and line.width:
            _write("\r" + " " * line.width + "\r")


class _Line:
    """Progress as one line that is written over; as a line every ten seconds where there is no terminal."""

    def __init__(self) -> None:
        self.said = self.last = time.monotonic()
        self.began = dict[str, float]()
        self.rewrites = sys.stderr.isatty() or "ipykernel" in sys.modules
        self.width = 0

    def __call__(self, task: str, done: int, total: int) -> None:
        now = time.monotonic()
        began, self.last = self.began.setdefault(task, self.last), now  # a task begins where the one before it ended
        wait = LINE_EVERY if not self.rewrites else QUIET if not self.width else 0.1
        if not 0 < done <= total or now - self.said < wait:
            return
        self.said = now
        left = (now - began) * (total - done) / done
        text = f"{task[:1].upper()}{task[1:]}: {done / total:.0%}, about {left:.0f} s left"
        start, end = ("\r", "") if self.rewrites else ("", "\n")
        _write(start + text.ljust(self.width) + end)
        self.width = len(text)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
