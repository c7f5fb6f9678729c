"""Check every request (rate, Host, Origin, content type, token) and set security headers: see docs/security.md."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headscope.app.server.limits import MAX_BODY, BodyTimeoutError, BodyTooLargeError, RateLimiter, whole_body
from headscope.app.server.token import Token

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
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
}
INTERNAL_ERROR = "the server failed on this request; the terminal it runs in shows the error"


@dataclass(frozen=True)
class Refusal:
    """An error response to a request that is not passed on."""

    status: HTTPStatus
    message: str

    def response(self) -> Response:
        return JSONResponse({"kind": "Refused", "message": self.message}, status_code=self.status)


class Guard:
    """Middleware that refuses requests before the application. Plain ASGI, so that disconnects stay visible to it."""

    def __init__(self, app: ASGIApp, token: Token | None = None) -> None:
        self.app, self.token, self.limiter = app, token, RateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refuse(Request(scope))
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        try:
            await self.app(scope, await whole_body(scope, receive), send_with_headers)
        except (BodyTooLargeError, BodyTimeoutError) as error:
            await Refusal(error.status, str(error)).response()(scope, receive, send_with_headers)
        except Exception:
            if not started:
                failed = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR)
                await failed.response()(scope, receive, send_with_headers)
            raise  # uvicorn logs it

    def _refuse(self, request: Request) -> Response | None:
        refusal = (
            self._refuse_rate(request)
            or (refuse_host(request) if self.token is None else None)
            or refuse_origin(request)
            or refuse_content(request)
        )
        if refusal is not None:
            return refusal.response()
        if self.token is None:
            return None
        first_visit = self.token.set_cookie(request)
        if first_visit is not None or self.token.is_in(request):
            return first_visit
        return Refusal(HTTPStatus.UNAUTHORIZED, self.token.missing).response()

    def _refuse_rate(self, request: Request) -> Refusal | None:
        if self.limiter.allow(request.client.host if request.client else ""):
            return None
        return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too many requests at once from this address; wait a second")


def refuse_host(request: Request) -> Refusal | None:
    """Refuse a Host header other than localhost or a loopback address: it may be DNS rebinding."""
    name = request.headers.get("host", "")
    found = _NAME.fullmatch(name)
    if found and (found["name"].lower() == "localhost" or is_loopback(found["name"].strip("[]"))):
        return None
    return Refusal(HTTPStatus.BAD_REQUEST, f"this server is not called {name[:80]!r}; open it as {HOST} or localhost")


def refuse_origin(request: Request) -> Refusal | None:
    """Refuse cross-origin requests; a link on another site may open the page, and nothing more."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", "nobody"):
        return Refusal(HTTPStatus.FORBIDDEN, f"a page of {origin[:80]!r} may not send requests to this server")
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin"):
        return None
    opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if opens and request.method in SAFE and not request.url.path.startswith("/api"):
        return None
    return Refusal(HTTPStatus.FORBIDDEN, "another page may not send requests to this server; open its own page")


def refuse_content(request: Request) -> Refusal | None:
    """Refuse large bodies, and all but JSON: a form on another site can post text without a preflight, but not JSON."""
    headers = request.headers
    if headers.get("content-length", "").isdecimal() and int(headers["content-length"]) > MAX_BODY:
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(BodyTooLargeError()))
    if request.method in SAFE:
        return None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if kind == "application/json" or (empty and not kind):
        return None
    return Refusal(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send application/json, not {kind[:80] or 'a body without a type'!r}"
    )


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
