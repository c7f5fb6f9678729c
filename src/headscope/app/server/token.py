"""What a request from beyond this machine must carry: in the address of the first visit, afterwards in a cookie."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

IN_ADDRESS = "token"


@dataclass(frozen=True)
class Token:
    """A secret made for one run of the server."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    missing = "this page needs its token: open the whole address that the terminal printed, with ?token=… at its end"

    @property
    def cookie(self) -> str:
        """Browsers share cookies between the ports of a machine, so each server's has a name of its own."""
        return f"headscope-{hashlib.sha256(self.secret.encode()).hexdigest()[:12]}"

    def carried_by(self, request: Request) -> bool:
        """Whether this request has the token in its cookie, or in its Authorization header (a program's way)."""
        given = request.cookies.get(self.cookie) or request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._is(given)

    def welcome(self, request: Request) -> Response | None:
        """The first visit: the browser is given the cookie, and the token leaves the address and the history."""
        asked = request.query_params
        if request.method != "GET" or not self._is(asked.get(IN_ADDRESS, "")):
            return None
        rest = urlencode([(name, value) for name, value in asked.multi_items() if name != IN_ADDRESS])
        path = "/" + request.url.path.lstrip("/")  # two slashes would name another server
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), HTTPStatus.SEE_OTHER)
        answer.set_cookie(self.cookie, self.secret, httponly=True, samesite="lax")
        return answer

    def _is(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.secret.encode())
