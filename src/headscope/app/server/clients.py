"""Tell clients apart by a signed cookie, and limit what each sends: bodies, all bodies together, requests per second.

A class of 64 behind one address must not notice the limit. Opening the page is about sixteen requests, so a class that
opens it at once makes a thousand; afterwards dragging makes about ten per second. So an address may make 2,048 at
once and 640 per second: less than a program in a loop makes, more than a class does.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from headscope.app.lru import LRU

NEW_AT_ONCE, NEW_PER_SECOND = 256.0, 1.0  # clients of one address: a class may arrive at once
_STATE = "headscope.client"
COOKIE = "headscope-client-"

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
        """Count one request from an address; return whether it is within the limit."""
        now = self._clock()
        left, then = self._buckets.get(address, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second)
        self._buckets[address] = (max(0.0, left - 1), now)
        return left >= 1

    def take_back(self, address: str) -> None:
        """Do not count what was just allowed."""
        left, then = self._buckets[address]
        self._buckets[address] = (left + 1, then)


class HeldBodies:
    """How many bytes the larger bodies of the requests under way have announced, until their answers begin."""

    def __init__(self) -> None:
        self._held: list[int] = []

    @contextmanager
    def holding(self, size: int) -> Iterator[Callable[[], None]]:
        """Count a body until the yielded function is called; reject a large one that does not fit with the others."""
        if size <= SMALL_BODY:
            yield lambda: None
            return
        if sum(self._held) + size > HELD_BODIES:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY)
        self._held.append(size)
        with ExitStack() as stack:
            stack.callback(self._held.remove, size)
            yield stack.close


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
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    waiting: list[Message] = [{"type": "http.disconnect"} if body is None else whole]

    async def deliver() -> Message:
        return waiting.pop() if waiting else await receive()

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


def browser_id(request: Request) -> str | None:
    """The browser that sent a request, by its cookie; None without one."""
    return request.scope.get(_STATE)


def client_id(request: Request) -> str:
    """Who sent a request: the browser; without a cookie, the address."""
    return browser_id(request) or _address(request.scope)


class Clients:
    """Give each browser a cookie, so many per address; know it again by its signature."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._new = RateLimiter(at_once=NEW_AT_ONCE, per_second=NEW_PER_SECOND)

    @property
    def cookie(self) -> str:
        """Return this server's cookie name: browsers share cookies between the ports of a machine."""
        return f"{COOKIE}{self._sign('name')[:12]}"

    def identify(self, scope: Scope, *, new: bool = True) -> str | None:
        """Note in the request who sent it; return the Set-Cookie header for a ``new`` browser, without a cookie yet.

        Until it comes back, the request belongs to its address: who takes no cookies is not a new client each time.
        A page of another site sends no ``SameSite=Strict`` cookie when it opens this one, although there may be one.
        """
        request = Request(scope)
        name, _, signature = request.cookies.get(self.cookie, "").partition(".")
        if name and hmac.compare_digest(signature.encode(), self._sign(name).encode()):
            scope[_STATE] = name
            return None
        own = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not new or not own or not self._new.allow(_address(scope)):
            return None
        name = secrets.token_hex(16)
        return f"{self.cookie}={name}.{self._sign(name)}; HttpOnly; Path=/; SameSite=Strict"

    def _sign(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()[:32]


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
