"""Limit the size of a request body, the time it takes to arrive, and the requests per second of an address.

A class of 64 behind one address must not notice the limit. Opening the page is about sixteen requests, so a class that
opens it at once makes a thousand; afterwards dragging makes about ten per second. So an address may make 2,048 at
once and 640 per second: less than a program in a loop makes, more than a class does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from headscope.app.lru import LRU

MAX_BODY = 8 * 2**20  # bytes: a million characters as JSON, up to six bytes each, and some more
BODY_TIMEOUT = 30.0  # seconds
PER_SECOND = 640.0
AT_ONCE = 2_048.0
TOO_LARGE = f"a request holds at most {MAX_BODY // 2**20} MiB; send a shorter text"
ADDRESSES = 4_096  # counted at a time; the least recent one is dropped


class RateLimiter:
    """A token bucket per address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: LRU[str, tuple[float, float]] = LRU(ADDRESSES)

    def allow(self, address: str) -> bool:
        now = self._clock()
        left, then = self._buckets.get(address, (AT_ONCE, now))
        left = min(AT_ONCE, left + (now - then) * PER_SECOND)
        self._buckets[address] = (max(0.0, left - 1), now)
        return left >= 1


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
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        more = message.get("more_body", False)
    return b"".join(parts)


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}
