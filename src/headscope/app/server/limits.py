"""How much one client may ask: the size of a request, the time it takes to send, and how many there are.

A class of 64 behind one address must not notice the limit. Opening the page is about sixteen requests, so a class that
opens it at once makes a thousand; afterwards a hand that drags makes some ten a second. So an address may make 2,048 at
once and 640 a second: less than a program in a loop makes, more than a class does.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import Message, Receive, Scope

LARGEST_BODY = 8 * 2**20  # a million characters as JSON, up to six bytes each, and room to spare
SLOWEST_BODY = 30.0  # seconds until all of it is here
PER_SECOND = 640.0
AT_ONCE = 2_048.0
ADDRESSES = 4_096  # remembered; the one that has been quiet for longest is forgotten


class TooLargeError(Exception):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self) -> None:
        super().__init__(f"a request holds at most {LARGEST_BODY // 2**20} MiB; send a shorter text")


class TooSlowError(Exception):
    status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self) -> None:
        super().__init__(f"the request did not arrive within {SLOWEST_BODY:.0f} seconds; send it again")


class Rates:
    """A bucket for each address: it empties by one with each request and fills steadily."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, address: str) -> bool:
        now = self._clock()
        left, then = self._left.pop(address, (AT_ONCE, now))
        left = min(AT_ONCE, left + (now - then) * PER_SECOND)
        self._left[address] = (max(0.0, left - 1), now)
        if len(self._left) > ADDRESSES:
            self._left.popitem(last=False)
        return left >= 1


async def whole_body(scope: Scope, receive: Receive) -> Receive:
    """A ``receive`` that hands over a body that is already here, and within bounds."""
    if scope["method"] in ("GET", "HEAD"):
        return receive
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            body = await _read(receive)
    except TimeoutError:
        raise TooSlowError from None
    if body is None:
        return _left
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _read(receive: Receive) -> bytes | None:
    """The body; None when the client left before its end."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise TooLargeError
        more = message.get("more_body", False)
    return b"".join(parts)


async def _left() -> Message:
    return {"type": "http.disconnect"}
