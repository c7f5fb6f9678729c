"""HTTP connections that cannot be held for nothing: a deadline for headers, one for readers, and a cap per address.

At the cap, a new connection takes the place of the oldest one of its address whose request is not complete: half-open
and idle ones. A browser opens an idle one again when it needs it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 1_024  # a browser opens six, and a class is 64 of them
PER_ADDRESS = 512
HEADER_TIMEOUT = 10.0  # seconds until a request's headers are complete
READ_TIMEOUT = 15.0  # seconds in which a client takes at least READ_PART of its answer
READ_PART = 64 * 2**10  # bytes
PIPELINED = 64 * 2**10  # bytes of later requests that are kept while one is answered


class LimitedConnection(H11Protocol):
    """uvicorn's HTTP/1.1 connection with these limits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.opened = self.loop.time()
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None
        self._next_waits = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        open_ones = [other for other in self._all() if other is not self and not other.transport.is_closing()]
        same = [other for other in open_ones if other.client and self.client and other.client[0] == self.client[0]]
        for near, most in ((same, PER_ADDRESS), (open_ones, CONNECTIONS)):
            if len(near) >= most and not _close_oldest(near):
                transport.abort()
                return
        self._headers_due = self.loop.call_later(HEADER_TIMEOUT, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.conn.their_state is h11.IDLE
        if waiting and self._headers_due is None:
            self._headers_due = self.loop.call_later(HEADER_TIMEOUT, self.transport.abort)
        elif not waiting and self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def handle_events(self) -> None:
        """Take what has arrived. Go on reading while a request is answered, to notice when its client leaves."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.more_body:
            if len(self.conn.trailing_data[0]) > PIPELINED:
                self.transport.abort()
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Begin the next request once this answer is taken: an answer behind it would wait uncounted."""
        self._next_waits = self.flow.write_paused
        if not self._next_waits:
            super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._headers_due, self._reading_due):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading_due is None:
            self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None
        if self._next_waits:
            self.on_response_complete()

    @property
    def unread(self) -> int:
        """How many bytes of answers this client has not taken yet."""
        return int(self.transport.get_write_buffer_size())

    @property
    def busy(self) -> bool:
        """Whether a request has arrived whole and is not answered yet."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _all(self) -> list[LimitedConnection]:
        """The open connections of this server."""
        return [other for other in self.connections if isinstance(other, LimitedConnection)]

    def _expect_reading(self) -> None:
        """Close the connection of a client that takes nothing for a while."""
        before = self.unread

        def check() -> None:
            if self.unread > before - READ_PART:
                self.transport.abort()
            else:
                self._expect_reading()

        self._reading_due = self.loop.call_later(READ_TIMEOUT, check)


def _close_oldest(connections: list[LimitedConnection]) -> bool:
    """Close the oldest of these without a whole request under way; false if all have one."""
    found = min((other for other in connections if not other.busy), key=lambda other: other.opened, default=None)
    if found is not None:
        found.transport.abort()
    return found is not None
