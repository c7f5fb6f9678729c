"""The access token of a server that other machines can reach: in the first URL, afterwards in a cookie."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from string import Template
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headscope.app.pages.course.classroom import Classroom
from headscope.app.server.clients import RateLimiter

PARAMETER = "token"


@dataclass(frozen=True)
class AccessToken:
    """A random secret for one run of the server."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    missing = "this page needs its token: open the whole address that the terminal printed, with ?token=… at its end"

    @property
    def cookie(self) -> str:
        """Browsers share cookies between the ports of a machine, so each server's has a name of its own."""
        return f"headscope-{hashlib.sha256(self.secret.encode()).hexdigest()[:12]}"

    def is_in(self, request: Request) -> bool:
        """Whether a request has the token in its cookie, or in its Authorization header (for programs)."""
        given = request.cookies.get(self.cookie) or request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._is(given)

    def set_cookie(self, request: Request) -> Response | None:
        """For a first visit, set the cookie and redirect to the URL without the token, which so leaves the history."""
        parameters = request.query_params
        if request.method != "GET" or not self._is(parameters.get(PARAMETER, "")):
            return None
        rest = urlencode([(name, value) for name, value in parameters.multi_items() if name != PARAMETER])
        path = "/" + request.url.path.lstrip("/")  # two slashes would name another server
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), HTTPStatus.SEE_OTHER)
        self.add_cookie(response)
        return response

    def add_cookie(self, response: Response) -> None:
        """Let a browser in from now on."""
        response.set_cookie(self.cookie, self.secret, httponly=True, samesite="lax")

    def _is(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.secret.encode())


PATH = "/class"
TRIES_AT_ONCE, TRIES_PER_SECOND = 128.0, 1.0  # wrong codes of one address: a class behind it may mistype at once
STYLE = (
    "body{font:18px/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem}"
    "input{font:600 2rem/1.2 ui-monospace,monospace;width:100%;padding:.4rem;text-transform:uppercase;"
    "box-sizing:border-box}button{font:inherit;margin-top:1rem;padding:.5rem 1.5rem}"
)
PAGE = Template(
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f"<title>Join the class</title><style>{STYLE}</style><main><h1>Join the class</h1>"
    f'<form action="{PATH}"><label for="code">The code on the board</label>'
    '<input id="code" name="code" maxlength="20" autocomplete="off" autocapitalize="characters" autofocus required>'
    '<p role="alert">$said</p><button>Join</button></form></main></html>'
)
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
WRONG = "That is not the code. Look at the board again."
SLOWLY = "Too many wrong codes at once. Wait a few seconds and try again."


class Join:
    """Answer requests for ``/class`` without the token; a right code gets the token's cookie."""

    def __init__(self, classroom: Classroom, token: AccessToken) -> None:
        self.classroom, self.token = classroom, token
        self._tries = RateLimiter(at_once=TRIES_AT_ONCE, per_second=TRIES_PER_SECOND)

    def respond(self, request: Request) -> Response | None:
        """The form, or a redirect to the page for the right code; None for every other path."""
        if request.url.path != PATH or request.method != "GET":
            return None
        code = request.query_params.get("code", "")
        if not code:
            return _form("")
        address = request.client.host if request.client else ""
        if not self._tries.allow(address):
            return _form(SLOWLY, HTTPStatus.TOO_MANY_REQUESTS)
        if not self.classroom.matches(code[:40]):
            return _form(WRONG, HTTPStatus.FORBIDDEN)
        self._tries.take_back(address)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        self.token.add_cookie(response)
        return response


def _form(said: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return HTMLResponse(PAGE.substitute(said=said), status, headers={"Content-Security-Policy": POLICY})
