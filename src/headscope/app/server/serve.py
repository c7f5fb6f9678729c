"""Start the server: choose a port, print the address, open the browser."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.pages.course import lessons
from headscope.app.pages.course.classroom import Classroom
from headscope.app.pages.film import Films
from headscope.app.server.addresses import bracketed, hosts_on_network, is_loopback
from headscope.app.server.application import application
from headscope.app.server.guard import HOST, Guard
from headscope.app.server.join import PATH
from headscope.app.server.routes.classroom import TEACHER_PATH
from headscope.app.server.token import PARAMETER, AccessToken
from headscope.errors import InputError

SHUTDOWN_TIMEOUT = 5  # seconds for running requests when the server is stopped
CONNECTIONS = 1_024  # a browser opens six, and a class is 64 of them; one more is answered 503
ONLY_HERE = "No other machine can open it: connect this one to a network, and start with --host 0.0.0.0."
OPEN_FILES = 4_096  # allowed at once, where the system lets a program ask for it: many allow fewer than connections
UVICORN: dict[str, Any] = {
    "http": "h11",
    "limit_concurrency": CONNECTIONS,
    "ws": "none",
    "log_level": "warning",
    "server_header": False,
    "proxy_headers": False,  # any client can set those
    "timeout_graceful_shutdown": SHUTDOWN_TIMEOUT,
}


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where the page is served. On a host that other machines reach, and in a class, every request needs a token."""

    host: str = HOST
    port: int | None = None
    open_browser: bool = True
    classroom: bool = False

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host == "localhost" or is_loopback(self.host)


def listen(port: int | None = None, host: str = HOST) -> socket.socket:
    """Open a socket on the requested port, or on any free one. Early connections wait until the server runs."""
    try:
        family, *_, place = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(place[:2], family=family).detach()
        return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, opened)  # asyncio delays small parts else
    except socket.gaierror as error:
        raise InputError(f"--host {host}: this machine has no such address ({error.strerror})") from error
    except OSError as error:
        where = f"port {port}" if host == HOST else f"{host}, port {port or 'any'}"
        why = os.strerror(error.errno or 0)  # its own text repeats the address
        raise InputError(f"{where} cannot be used ({why}); leave --port out for a free one") from error


def serve(
    registry: ModelRegistry,
    options: ServeOptions = ServeOptions(),  # noqa: B008 - frozen
    censuses: Censuses | None = None,
    films: Films | None = None,
) -> None:
    """Serve the page until interrupted."""
    listening = listen(options.port, options.host)
    port = listening.getsockname()[1]
    hosts = partial(hosts_on_network, options.host)
    held = Classroom(lambda: lessons.contents().lessons, hosts=hosts) if options.classroom else None
    token = None if options.local and held is None else AccessToken()
    sys.stderr.write(announcement(options, port, token, held))
    if options.open_browser:
        page = address(_reachable_here(options.host), port, token, held)
        page += "#microscope" if any(session.given.infos for session in registry.sessions().values()) else ""
        threading.Thread(target=webbrowser.open, args=[page], daemon=True).start()  # some return when they are closed
    # Exempt what was imported from garbage collection, which would stop every response for a quarter of a second.
    gc.freeze()
    _allow_open_files()
    _run(application(registry, token, censuses, films, held), listening)


def serve_tools(app: ASGIApp, options: ServeOptions) -> None:
    """Serve tools for agents until interrupted, behind the checks of the page."""
    listening = listen(options.port, options.host)
    token = None if options.local else AccessToken()
    header = f" with the header Authorization: Bearer {token.secret}" if token else ""
    at = address(options.host, listening.getsockname()[1])
    sys.stderr.write(f"The tools are at {at}mcp{header} (Ctrl+C stops them).\n")
    _run(Guard(app, token=token), listening)


def _run(app: ASGIApp, listening: socket.socket) -> None:
    with suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(app, **UVICORN)).run(sockets=[listening])


def announcement(options: ServeOptions, port: int, token: AccessToken | None, held: Classroom | None = None) -> str:
    """The address to print in the terminal."""
    if token is None:
        return f"The microscope is at {address(options.host, port)} (Ctrl+C stops it).\n"
    host = next(iter(hosts_on_network(options.host)), _reachable_here(options.host))
    if held is not None:
        said = f"The teacher's page is at {address(host, port, token, held)} (Ctrl+C stops the class).\n"
        if is_loopback(host):
            return said + f"{ONLY_HERE} Students on this machine type {held.code} at {address(host, port)}{PATH[1:]}.\n"
        return said + (
            f"Students open {address(host, port)}{PATH[1:]} and type {held.code}. What they type travels unencrypted: "
            "use it in networks you trust.\n"
        )
    return (
        f"The microscope is at {address(host, port, token)} (Ctrl+C stops it).\n"
        "Whoever has this whole address may use it, and what they type travels unencrypted: use it in networks you "
        "trust.\n"
    )


def address(host: str, port: int, token: AccessToken | None = None, held: Classroom | None = None) -> str:
    """Return the address of the page, or of the teacher's page if a class is held."""
    page = "" if held is None else f"{TEACHER_PATH[1:]}?key={held.teacher}"
    secret = f"{'&' if page else '?'}{PARAMETER}={token.secret}" if token else ""
    return f"http://{bracketed(host)}:{port}/{page}{secret}"


def _allow_open_files() -> None:
    """Raise the limit on open files of this process, if there is one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _reachable_here(host: str) -> str:
    return {"0.0.0.0": HOST, "::": "::1"}.get(host, host)
