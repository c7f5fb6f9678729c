"""Starting the server, and stopping it."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser

import uvicorn

from headscope.app.server.application import application
from headscope.app.server.guard import HOST
from headscope.app.shelf import Shelf
from headscope.errors import InputError


def free_port(wanted: int | None = None) -> int:
    """The wanted port, or any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted or 0))
        except OSError as error:
            raise InputError(
                f"port {wanted} cannot be used ({error.strerror}); leave --port out for a free one"
            ) from error
        return int(probe.getsockname()[1])


def serve(shelf: Shelf, *, port: int | None = None, open_browser: bool = True) -> None:
    """Show the page until interrupted."""
    port = free_port(port)
    address = f"http://{HOST}:{port}/"
    sys.stderr.write(f"The microscope is at {address} (Ctrl+C stops it).\n")
    if open_browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    uvicorn.run(application(shelf), host=HOST, port=port, log_level="warning")
