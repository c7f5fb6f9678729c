"""Share one model between requests: short ones before long ones, long ones in slices, one client after the other.

One request at a time has the model. A short one keeps it for ``SHORT``; one that takes longer is a long one from then
on. A long one hands it over at a pause point as soon as a short one waits, and after ``SLICE`` when only long ones
wait. While both kinds wait, long ones get ``SHARE`` of the time that short ones take, so that they finish too. Among
equals, the client that was served longest ago is next. A reading whose client has disconnected stops at its next pause
point. Pause points are where our own code counts anyway (attention/progress.py): between layers, between bands of
``blockwise``, and wherever work tells how far it is.

A paused reading is a thread that waits. Observers, edits and recordings are in its ``ContextVar``s, so that it and the
readings that run meanwhile do not see each other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from itertools import count
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException

from headscope.app.lru import LRU
from headscope.attention.progress import may_be_interrupted, pausing, progress_callback

SHORT = 0.5  # seconds of processor time; a request that needs more counts as long
SLICE = 0.1  # seconds that a long reading keeps the model while another long one waits
SHARE = 1 / 8  # of the time of short requests, for long ones that wait meanwhile
LONG_AT_ONCE = 4  # long readings that have begun, each of another client: they hold activations while they wait
LINE = 384  # requests that wait for one model: a class of 64, six connections each
CLIENTS = 4_096  # whose last turn is remembered
FULL = "too many requests wait for this model; try again in a moment"

Kind = Literal["short", "long", "whole"]
Result = TypeVar("Result")


class ReaderLeftError(BaseException):
    """The client has disconnected. Not an ``Exception``: nothing on the way may take it for an error of the model."""


class _BeginAgainError(BaseException):
    """A request turned out to be long while as many long ones as may have begun: it waits, and begins again."""


class Turn:
    """One request's place in a queue, and how far it is. One of kind ``whole`` keeps its turn to the end."""

    def __init__(self, client: str = "", kind: Kind = "short") -> None:
        self.client, self.kind = client, kind
        self.begun = self.left = self.stopped = False
        self.used = self.since = 0.0
        self.number = 0
        self.progress = ("", 0, 0)
        self.granted: Future[None] = Future()

    @property
    def long(self) -> bool:
        """Whether it gives way to short ones."""
        return self.kind in ("long", "whole")

    def stop(self) -> None:
        """Stop the work in this thread, once: its ``finally`` blocks run to their end."""
        self.stopped = True
        raise ReaderLeftError


class FairQueue:
    """The requests of one model, or of one kind of other long work."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock, self._lock, self._numbers = clock, threading.Lock(), count(1)
        self._running: Turn | None = None
        self._waiting: list[Turn] = []
        self._begun: list[Turn] = []
        self._short_waits = False
        self._owed = 0.0
        """Seconds that long readings may run although short requests wait."""
        self._served: LRU[str, int] = LRU(CLIENTS)

    async def run(self, turn: Turn, work: Callable[[], Result]) -> Result:
        """Wait for the turn and run the work in a thread; raise ``ReaderLeftError`` after ``leave``."""
        while True:
            if turn.left:
                raise ReaderLeftError
            self._enter(turn)
            try:
                await asyncio.wrap_future(turn.granted)
            except asyncio.CancelledError:
                self._drop(turn)
                raise
            # a limiter of its own: threads for pages and files are never used up by readings
            doing = asyncio.ensure_future(to_thread.run_sync(self._hold, turn, work, limiter=CapacityLimiter(1)))
            doing.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                return await asyncio.shield(doing)
            except _BeginAgainError:
                turn.kind, turn.stopped, turn.used = "long", False, 0.0
            except asyncio.CancelledError:
                self.leave(turn)
                raise

    def leave(self, turn: Turn) -> None:
        """Stop a request whose client has disconnected: at once if it has not begun, else at its next pause point."""
        with self._lock:
            turn.left = True
            if turn in self._waiting and not turn.begun:
                self._waiting.remove(turn)
                turn.granted.set_exception(ReaderLeftError())
            self._count()

    def place(self, turn: Turn) -> int:
        """How many requests will run before this one, as it looks now; 0 while it runs."""
        with self._lock:
            if turn not in self._waiting:
                return 0
            mine = self._rank(turn)
            return 1 + sum(self._rank(other) < mine for other in self._waiting)

    def pause(self, turn: Turn) -> None:
        """Hand the model over if it is another's turn. Called by the running request at its pause points."""
        if turn.stopped:
            return  # what the work cleans up is not disturbed
        if turn.left:
            turn.stop()
        if turn.kind == "whole" or not self._waiting or not may_be_interrupted():
            return
        spent = self._clock() - turn.since
        most = SHORT - turn.used if not turn.long else max(self._owed, 0.0) if self._short_waits else SLICE
        if spent >= most:
            self._hand_over(turn)

    def _enter(self, turn: Turn) -> None:
        with self._lock:
            if len(self._waiting) >= LINE:
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, FULL)
            self._wait(turn)
            if self._running is None:
                self._grant()

    def _hold(self, turn: Turn, work: Callable[[], Result]) -> Result:
        """Run the work in this thread; it may pause where it reports its progress, and between layers."""

        def report(what: str, done: int, total: int) -> None:
            turn.progress = (what, done, total)

        turn.since = self._clock()
        try:
            with progress_callback(report), pausing(lambda: self.pause(turn)):
                return work()
        finally:
            self._release(turn)

    def _hand_over(self, turn: Turn) -> None:
        with self._lock:
            others = {other.client for other in self._begun if other is not turn}
            if not turn.long and (len(self._begun) >= LONG_AT_ONCE or turn.client in others):
                turn.stopped = True
                raise _BeginAgainError
            self._account(turn)
            turn.kind, turn.begun = "long", True
            if turn not in self._begun:
                self._begun.append(turn)
            self._wait(turn)
            self._grant()
        turn.granted.result()
        turn.since = self._clock()
        if turn.left:
            turn.stop()

    def _release(self, turn: Turn) -> None:
        with self._lock:
            self._account(turn)
            self._begun = [other for other in self._begun if other is not turn]
            self._grant()

    def _drop(self, turn: Turn) -> None:
        """Forget a turn that no one waits for any more, whether it was granted or not."""
        with self._lock:
            self._begun = [other for other in self._begun if other is not turn]
            if turn is self._running:
                self._grant()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            self._count()

    def _account(self, turn: Turn) -> None:
        """Add up what a slice took; what long readings are owed changes only while both kinds wait."""
        spent = self._clock() - turn.since
        turn.used += spent
        if turn.long and self._short_waits:
            self._owed = max(self._owed - spent, -SHORT)  # between two pause points may be more than was owed
        elif not turn.long and any(other.long for other in self._waiting):
            self._owed = min(self._owed + SHARE * spent, SLICE)

    def _wait(self, turn: Turn) -> None:
        turn.granted, turn.number = Future(), next(self._numbers)
        turn.granted.set_running_or_notify_cancel()  # now only the queue ends it
        self._waiting.append(turn)
        self._count()

    def _grant(self) -> None:
        """Give the model to the next turn, if there is one that may run."""
        ready = [turn for turn in self._waiting if self._may_run(turn)]
        turn = self._running = min(ready, key=self._rank, default=None)
        if turn is None:
            return
        self._waiting.remove(turn)
        self._count()
        self._served[turn.client] = next(self._numbers)
        if turn.long and turn not in self._begun:
            self._begun.append(turn)
        turn.begun = turn.begun or turn.long
        turn.granted.set_result(None)

    def _may_run(self, turn: Turn) -> bool:
        if turn.begun or not turn.long:
            return True
        return len(self._begun) < LONG_AT_ONCE and all(other.client != turn.client for other in self._begun)

    def _rank(self, turn: Turn) -> tuple[bool, bool, bool, int, int]:
        """The order of turns: left ones, which only stop; then short or owed long ones; then client by client."""
        later = turn.long != (self._owed > 0)
        return not turn.left, later, not self._may_run(turn), self._served.get(turn.client, 0), turn.number

    def _count(self) -> None:
        self._short_waits = any(not turn.long or turn.left for turn in self._waiting)
