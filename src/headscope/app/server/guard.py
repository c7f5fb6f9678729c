"""Check every request (rate, Host, Origin, content type, token), know its client, and set security headers.

docs/security.md says what is promised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headscope.app.server import clients, sandbox
from headscope.app.server.addresses import is_loopback
from headscope.app.server.clients import MAX_BODY, TOO_LARGE, Clients, HeldBodies, RateLimiter, whole_body
from headscope.app.server.errors import problem_response
from headscope.app.server.join import Join
from headscope.app.server.token import AccessToken

HOST = "127.0.0.1"
SAFE = ("GET", "HEAD")
_NAME = re.compile(r"(?P<name>\[[^\[\]]*\]|[^:\[\]]*)(:\d+)?")
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "font-src 'self'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "frame-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
}
NO_CHUNKS = "send the body's Content-Length; chunks are not taken"
INTERNAL_ERROR = "the server failed on this request; the terminal it runs in shows the error"


class Guard:
    """Middleware that refuses requests before the application. Plain ASGI, so that disconnects stay visible to it."""

    def __init__(self, app: ASGIApp, token: AccessToken | None = None, join: Join | None = None) -> None:
        self.app, self.token, self.join = app, token, join
        self.limiter = RateLimiter(at_once=clients.AT_ONCE, per_second=clients.PER_SECOND)
        self.clients, self.bodies = Clients(), HeldBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False
        cookie: str | None = None
        release: Callable[[], None] | None = None

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if release is not None:
                    release()
                own = sandbox.headers() if scope["path"] == sandbox.DOCUMENT else {}
                headers = MutableHeaders(scope=message)
                if "content-security-policy" in headers:
                    own["Content-Security-Policy"] = headers["content-security-policy"]
                headers.update(HEADERS | own)
                if cookie is not None:
                    headers.append("set-cookie", cookie)
            await send(message)

        try:
            first_visit = self._check(Request(scope))
            arrives = first_visit is not None and first_visit.status_code == HTTPStatus.SEE_OTHER
            if first_visit is None or arrives:
                cookie = self.clients.identify(scope, new=arrives or self.join is None)
            if arrives and self.join and cookie is None:
                first_visit = self.join.turn_away(Request(scope)) or first_visit
            if first_visit is None:
                with self.bodies.holding(_length(Request(scope))) as release:
                    await self.app(scope, await whole_body(scope, receive), send_with_headers)
            else:
                await first_visit(scope, receive, send_with_headers)
        except HTTPException as refused:
            refusal = problem_response("Refused", refused.detail, refused.status_code)
            refusal.headers["connection"] = "close"  # a body that was refused is not read to its end
            await refusal(scope, receive, send_with_headers)
        except Exception:
            if not started:
                failed = problem_response("Refused", INTERNAL_ERROR, HTTPStatus.INTERNAL_SERVER_ERROR)
                await failed(scope, receive, send_with_headers)
            raise  # uvicorn logs it

    def _check(self, request: Request) -> Response | None:
        """Raise for a rejected request; return a redirect for a first visit with the token in its URL."""
        if not self.limiter.allow(request.client.host if request.client else ""):
            raise HTTPException(
                HTTPStatus.TOO_MANY_REQUESTS, "too many requests at once from this address; wait a second"
            )
        if self.token is None:
            _check_host(request)
        _check_origin(request)
        _check_content(request)
        if self.token is None:
            return None
        first_visit = self.token.set_cookie(request)
        if first_visit is None and self.join is not None:
            first_visit = self.join.respond(request)
        if first_visit is None and not self.token.is_in(request):
            if self.join is not None and request.url.path == "/":
                return self.join.again(request)
            raise HTTPException(HTTPStatus.UNAUTHORIZED, self.token.missing)
        return first_visit


def _check_host(request: Request) -> None:
    """Refuse a Host header other than localhost or a loopback address: it may be DNS rebinding."""
    name = request.headers.get("host", "")
    found = _NAME.fullmatch(name)
    if not found or not (found["name"].lower() == "localhost" or is_loopback(found["name"].strip("[]"))):
        message = f"this server is not called {name[:80]!r}; open it as {HOST} or localhost"
        raise HTTPException(HTTPStatus.BAD_REQUEST, message)


def _check_origin(request: Request) -> None:
    """Refuse cross-origin requests; a link on another site may open the page, and nothing more."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", "nobody"):
        message = f"a page of {origin[:80]!r} may not send requests to this server"
        raise HTTPException(HTTPStatus.FORBIDDEN, message)
    opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    allowed = opens and request.method in SAFE and not request.url.path.startswith("/api")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not allowed:
        message = "another page may not send requests to this server; open its own page"
        raise HTTPException(HTTPStatus.FORBIDDEN, message)


def _check_content(request: Request) -> None:
    """Refuse large bodies, and all but JSON: a form on another site can post text without a preflight, but not JSON."""
    headers = request.headers
    if "transfer-encoding" in headers:
        raise HTTPException(HTTPStatus.LENGTH_REQUIRED, NO_CHUNKS)
    if _length(request) > MAX_BODY:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = headers.get("content-length", "0") == "0"
    if request.method not in SAFE and kind != "application/json" and not (empty and not kind):
        message = f"send application/json, not {kind[:80] or 'a body without a type'!r}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)


def _length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return min(int(length[:20]), MAX_BODY + 1) if length.isdecimal() else 0
