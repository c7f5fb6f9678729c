"""Starting the server, and stopping it."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass

import uvicorn

from headscope.app.model_registry import Shelf
from headscope.app.pages.census import Censuses
from headscope.app.pages.film import Films
from headscope.app.server.application import application
from headscope.app.server.guard import HOST, is_loopback
from headscope.app.server.token import IN_ADDRESS, Token
from headscope.errors import InputError

CONNECTIONS = 1_024  # a browser opens six, and a class is 64 of them
LAST_ANSWERS = 5  # seconds for what is being answered when the server is told to stop


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the page is served. On a host that others can reach, every request must carry a token."""

    host: str = HOST
    port: int | None = None
    open_browser: bool = True

    @property
    def is_here(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or is_loopback(self.host)


def free_port(wanted: int | None = None, host: str = HOST) -> int:
    """The wanted port, or any free one."""
    try:
        family, *_, address = socket.getaddrinfo(host, wanted or 0, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError(f"--host {host}: this machine knows no such address ({error.strerror})") from error
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            where = f"port {wanted}" if host == HOST else f"{host}, port {wanted or 'any'}"
            raise InputError(f"{where} cannot be used ({error.strerror}); leave --port out for a free one") from error
        return int(probe.getsockname()[1])


def serve(
    shelf: Shelf,
    place: Place = Place(),  # noqa: B008 - frozen
    censuses: Censuses | None = None,
    films: Films | None = None,
) -> None:
    """Show the page until interrupted."""
    port = free_port(place.port, place.host)
    token = None if place.is_here else Token()
    sys.stderr.write(announcement(place, port, token))
    if place.open_browser:
        threading.Timer(0.8, webbrowser.open, [address(_as_seen_here(place.host), port, token)]).start()
    # What was imported stays: a collection that walked through it would stop every answer for a quarter of a second.
    gc.freeze()
    uvicorn.run(
        application(shelf, token, censuses, films),
        host=place.host,
        port=port,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # anybody can write those
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=LAST_ANSWERS,
    )


def announcement(place: Place, port: int, token: Token | None) -> str:
    """What the terminal says."""
    if token is None:
        return f"The microscope is at {address(place.host, port)} (Ctrl+C stops it).\n"
    seen = _as_seen_outside(place.host)
    return (
        f"The microscope is at {address(seen, port, token)} (Ctrl+C stops it).\n"
        "Whoever has this whole address may use it, and what they type travels unencrypted: use it in networks you "
        "trust.\n"
    )


def address(host: str, port: int, token: Token | None = None) -> str:
    named = f"[{host}]" if ":" in host else host
    return f"http://{named}:{port}/" + (f"?{IN_ADDRESS}={token.secret}" if token else "")


def _as_seen_here(host: str) -> str:
    return {"0.0.0.0": HOST, "::": "::1"}.get(host, host)


def _as_seen_outside(host: str) -> str:
    return socket.gethostname() if host in ("0.0.0.0", "::") else host
