"""Connections held for nothing: half-open, slow to send, slow to read. On 127.0.0.1 only."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import httpx
import pytest

from headscope.app.server import HOST, clients, connections
from tests.app.conftest import scope, session
from tests.e2e.conftest import running, served

__all__ = ["scope", "session"]
pytestmark = pytest.mark.promise("Limits")
HALF = b"GET / HTTP/1.1\r\nHost: loc"
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


@pytest.mark.parametrize("sent", [b"", HALF, JSON + b"Content-Length: 100\r\n\r\n{"], ids=["nothing", "half", "body"])
def test_more_half_open_connections_than_there_may_be_keep_nobody_out(address, monkeypatch, sent):
    monkeypatch.setattr(connections, "PER_ADDRESS", 20)
    monkeypatch.setattr(connections, "CONNECTIONS", 40)
    with ExitStack() as held:
        lines = [held.enter_context(connect(address, sent)) for _ in range(60)]
        assert httpx.get(address, timeout=120).status_code == 200
        assert is_closed(lines[0]), "the oldest made room"


def test_headers_have_a_deadline(address, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.2)
    for sent in (b"", HALF):
        with connect(address, sent) as line:
            assert is_closed(line)


def test_the_headers_of_a_second_request_have_a_deadline_too(address, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.2)
    whole = f"GET /icon.svg HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with connect(address, whole) as line:
        assert line.recv(12) == b"HTTP/1.1 200"
        line.sendall(HALF)
        assert is_closed(line)


def test_a_request_under_way_has_no_deadline_for_headers(session, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.05)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with running(slow) as address:
        assert httpx.get(address, timeout=60).status_code == 204


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


def test_a_client_that_takes_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "READ_TIMEOUT", 0.2)
    gone = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(64 * 2**20), "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    with running(endless) as address, connect(address, f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()) as line:
        assert gone.wait(60)
        assert is_cut_short(line)


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Sixty-four MiB, in one piece."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(64 * 2**20)})


def is_cut_short(line: socket.socket) -> bool:
    received = 0
    try:
        while received < 64 * 2**20 and (part := line.recv(2**20)):
            received += len(part)
    except ConnectionError:
        pass
    return received < 64 * 2**20


def test_pipelined_requests_are_answered_in_order(address):
    one = f"GET /api/models HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    last = f"GET /nowhere HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    with connect(address, one * 20 + last) as line:
        told = b""
        while part := line.recv(2**16):
            told += part
    assert (told.count(b"HTTP/1.1 200"), told.count(b"HTTP/1.1 404")) == (20, 1)


@pytest.mark.parametrize("header", ["", "Connection: upgrade\r\nUpgrade: other\r\n"], ids=["plain", "upgrade"])
def test_a_client_that_leaves_is_noticed_whatever_it_sent_behind_its_request(header):
    """Bytes of a next request once stopped the reading, and with it the noticing."""
    begun, gone = threading.Event(), threading.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        while (await receive())["type"] != "http.disconnect":
            begun.set()
        gone.set()

    with running(waiting) as address:
        with connect(address, f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{header}\r\n".encode()) as line:
            assert begun.wait(60)
            for _ in range(20):
                line.sendall(HALF)
                time.sleep(0.01)  # one piece after the other
        assert gone.wait(60)


def test_what_is_kept_of_later_requests_is_limited():
    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        while (await receive())["type"] != "http.disconnect":
            pass

    with running(waiting) as address, connect(address, f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()) as line:
        with suppress(ConnectionError):
            line.sendall(bytes(64 * 2**20))
        assert is_closed(line)


def test_a_later_request_waits_until_the_answer_before_it_is_taken():
    """Its answer would wait beside those that are counted."""
    begun: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        begun.append(scope["path"])
        await (large if scope["path"] == "/large" else small)(scope, receive, send)

    both = "".join(f"GET /{path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n" for path in ("large", "second"))
    with running(answer) as address, connect(address, both.encode()) as line:
        assert line.recv(12) == b"HTTP/1.1 200"
        assert httpx.get(f"{address}other", timeout=60).status_code == 204
        assert begun == ["/large", "/other"]
        told = b""
        while b"HTTP/1.1 204" not in told:
            told = told[-20:] + line.recv(2**20)
        assert begun == ["/large", "/other", "/second"]


async def small(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_huge_headers_are_refused(address):
    for filler in (b"a" * 2**20, b"X: y\r\n" * 2**17):
        with connect(address) as line:
            try:
                line.sendall(b"GET / HTTP/1.1\r\nX-Long: " + filler)
                told = line.recv(64)
            except ConnectionError:
                continue
            assert told.startswith(b"HTTP/1.1 4")
