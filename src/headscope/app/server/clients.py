"""Tell clients apart: one cookie per browser, signed by this server."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.types import Scope

from headscope.app.server.limits import RateLimiter

NEW_AT_ONCE, NEW_PER_SECOND = 256.0, 1.0  # clients of one address: a class may arrive at once
_STATE = "headscope.client"


def client_id(request: Request) -> str:
    """Who sent a request: the browser by its cookie; without one, the address."""
    return str(request.scope.get(_STATE) or _address(request.scope))


class Clients:
    """Give each browser a cookie, so many per address; know it again by its signature."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._new = RateLimiter(at_once=NEW_AT_ONCE, per_second=NEW_PER_SECOND)

    @property
    def cookie(self) -> str:
        """Browsers share cookies between the ports of a machine, so each server's has a name of its own."""
        return f"headscope-client-{self._sign('name')[:12]}"

    def identify(self, scope: Scope) -> str | None:
        """Note in the request who sent it; return the Set-Cookie header for a browser that has no cookie yet.

        Until it comes back, the request belongs to its address: who takes no cookies is not a new client each time.
        A page of another site sends no ``SameSite=Strict`` cookie when it opens this one, although there may be one.
        """
        request = Request(scope)
        name, _, signature = request.cookies.get(self.cookie, "").partition(".")
        if name and hmac.compare_digest(signature.encode(), self._sign(name).encode()):
            scope[_STATE] = name
            return None
        own = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not own or not self._new.allow(_address(scope)):
            return None
        name = secrets.token_hex(16)
        return f"{self.cookie}={name}.{self._sign(name)}; HttpOnly; Path=/; SameSite=Strict"

    def _sign(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()[:32]


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
