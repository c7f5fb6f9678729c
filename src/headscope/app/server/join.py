"""Let students join a class: a page that asks for the code on the board, and sets the access token's cookie for it."""

from __future__ import annotations

import base64
import hashlib
from http import HTTPStatus
from string import Template

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headscope.app.pages.course.classroom import Classroom
from headscope.app.server.clients import RateLimiter
from headscope.app.server.token import AccessToken

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
