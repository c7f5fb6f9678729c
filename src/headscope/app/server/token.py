"""The access token of a server that other machines can reach: in the first URL, afterwards in a cookie."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

PARAMETER = "token"


@dataclass(frozen=True)
class AccessToken:
    """A random secret for one run of the server."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    missing = "this page needs its token: open the whole address that the terminal printed, with ?token=… at its end"

    @property
    def cookie(self) -> str:
        """Return this server's cookie name: browsers share cookies between the ports of a machine."""
        return f"headscope-{hashlib.sha256(self.secret.encode()).hexdigest()[:12]}"

    def is_in(self, request: Request) -> bool:
        """Whether a request has the token in its cookie, or in its Authorization header (for programs)."""
        given = request.cookies.get(self.cookie) or request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._is(given)

    def set_cookie(self, request: Request) -> Response | None:
        """On a first visit, set the cookie and redirect to the URL without the token, to keep it out of the history."""
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
