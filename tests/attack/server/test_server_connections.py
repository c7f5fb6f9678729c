"""Connections that send too much or leave: what a request may hold, and that a client's leaving is noticed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from headscope.app.server import HOST, clients
from tests.app.conftest import scope, session
from tests.e2e.conftest import running, served

__all__ = ["scope", "session"]
pytestmark = pytest.mark.promise("Limits")
JSON = f"POST /api/look HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture
def address(session) -> Iterator[str]:
    with served(session) as opened:
        yield opened


def connect(address: str, sent: bytes = b"") -> Any:
    line = socket.create_connection((HOST, int(address.rstrip("/").rpartition(":")[2])), timeout=60)
    line.sendall(sent)
    return closing(line)


def is_closed(line: socket.socket) -> bool:
    """Wait until the server closes the connection."""
    try:
        while line.recv(2**16):
            pass
    except ConnectionError:
        pass
    return True


def test_a_refused_body_is_not_read_to_its_end(address):
    with connect(address, JSON + b"Content-Length: 1000000000\r\n\r\n") as line:
        assert line.recv(12) == b"HTTP/1.1 413"
        assert is_closed(line)


def test_all_bodies_together_are_limited_and_small_ones_always_pass(address, monkeypatch):
    monkeypatch.setattr(clients, "SMALL_BODY", 100)
    monkeypatch.setattr(clients, "HELD_BODIES", 1_000)
    with connect(address, JSON + b"Content-Length: 900\r\n\r\n{"):
        while httpx.post(f"{address}api/look", json={"text": "lamp " * 30}, timeout=60).status_code != 503:
            time.sleep(0.01)  # until the other one's headers have arrived
        refused = httpx.post(f"{address}api/look", json={"text": "lamp " * 30}, timeout=60)
        assert "too many long texts are being sent" in refused.json()["message"]
        assert httpx.post(f"{address}api/look", json={"text": "the lamp"}, timeout=60).status_code == 200
    while httpx.post(f"{address}api/look", json={"text": "lamp " * 30}, timeout=60).status_code == 503:
        time.sleep(0.01)  # until its end is noticed


def test_client_that_leaves_is_noticed():
    begun, gone = threading.Event(), threading.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        while (await receive())["type"] != "http.disconnect":
            begun.set()
        gone.set()

    with running(waiting) as address:
        with connect(address, f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()):
            assert begun.wait(60)
        assert gone.wait(60)


def test_huge_headers_are_refused(address):
    for filler in (b"a" * 2**20, b"X: y\r\n" * 2**17):
        with connect(address) as line:
            try:
                line.sendall(b"GET / HTTP/1.1\r\nX-Long: " + filler)
                told = line.recv(64)
            except ConnectionError:
                continue
            assert told.startswith(b"HTTP/1.1 4")
