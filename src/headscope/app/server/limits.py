"""Limit the size of a request body, of all bodies together, the time one takes, and requests per second of an address.

A class of 64 behind one address must not notice the limit. Opening the page is about sixteen requests, so a class that
opens it at once makes a thousand; afterwards dragging makes about ten per second. So an address may make 2,048 at
once and 640 per second: less than a program in a loop makes, more than a class does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from headscope.app.lru import LRU

MAX_BODY = 8 * 2**20  # bytes: a million characters as JSON, up to six bytes each, and some more
SMALL_BODY = 64 * 2**10  # bytes: always taken
HELD_BODIES = 256 * 2**20  # bytes of all larger bodies together, from their headers until their answer
BODY_TIMEOUT = 30.0  # seconds
PER_SECOND = 640.0
AT_ONCE = 2_048.0
TOO_LARGE = f"a request holds at most {MAX_BODY // 2**20} MiB; send a shorter text"
TOO_MANY = "too many long texts are being sent to this server at once; try again in a moment"
ADDRESSES = 4_096  # counted at a time; the least recent one is dropped


class RateLimiter:
    """A token bucket per address."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, at_once: float = AT_ONCE, per_second: float = PER_SECOND
    ) -> None:
        self._clock, self._at_once, self._per_second = clock, at_once, per_second
        self._buckets: LRU[str, tuple[float, float]] = LRU(ADDRESSES)

    def allow(self, address: str) -> bool:
        now = self._clock()
        left, then = self._buckets.get(address, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second)
        self._buckets[address] = (max(0.0, left - 1), now)
        return left >= 1


class HeldBodies:
    """How many bytes of bodies the requests under way have announced."""

    def __init__(self) -> None:
        self.size = 0

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count a body while its request is under way; refuse a large one that does not fit beside the others."""
        counted = size if size > SMALL_BODY else 0
        if counted and self.size + counted > HELD_BODIES:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY)
        self.size += counted
        try:
            yield
        finally:
            self.size -= counted


async def whole_body(scope: Scope, receive: Receive) -> Receive:
    """Read the whole body within the limits; return a ``receive`` that delivers it."""
    if scope["method"] in ("GET", "HEAD"):
        return receive
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            body = await _read(receive)
    except TimeoutError:
        message = f"the request did not arrive within {BODY_TIMEOUT:.0f} seconds; send it again"
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, message) from None
    if body is None:
        return _disconnected
    delivered = False

    async def deliver() -> Message:
        nonlocal delivered
        if delivered:
            return await receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return deliver


async def _read(receive: Receive) -> bytes | None:
    """The body; None when the client disconnected before its end."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        more = message.get("more_body", False)
    return bytes(body)


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}
