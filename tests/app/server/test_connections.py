"""Limits of a connection, step by step: caps, deadlines and unread answers at exactly their numbers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from headscope.app.server import connections
from headscope.app.server.connections import HEADER_TIMEOUT, NO_CHUNKS, READ_PART, READ_TIMEOUT, LimitedConnection

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\n"


class Timer:
    """A call that is due after so many seconds, and happens when a test says so."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.cancelled = seconds, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop that keeps timers and runs nothing."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[Timer]()

    def time(self) -> float:
        self.now += 1
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def create_task(self, work: Any) -> Any:
        work.close()
        done: asyncio.Future[None] = asyncio.Future(loop=asyncio.new_event_loop())
        done.get_loop().close()
        return done


class Transport(asyncio.Transport):
    """The server's side of a connection: what was written, what waits to be read, and whether it was closed."""

    def __init__(self, address: str | None) -> None:
        super().__init__({"peername": (address, 1)} if address else {})
        self.waiting, self.written, self.aborted, self.closing = 0, b"", False, False

    def abort(self) -> None:
        self.aborted = self.closing = True

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Server:
    """Connections of one server."""

    def __init__(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None: ...

        self.config, self.state, self.loop = uvicorn.Config(app, log_config=None), ServerState(), Loop()

    def connect(self, address: str | None = "10.0.0.1", sent: bytes = b"") -> LimitedConnection:
        made = LimitedConnection(self.config, self.state, {}, self.loop)
        made.connection_made(Transport(address))
        if sent:
            made.data_received(sent)
        return made


def aborted(opened: list[LimitedConnection]) -> list[int]:
    return [at for at, each in enumerate(opened) if each.transport.aborted]


@pytest.mark.parametrize(
    ("addresses", "closed"),
    [
        ("aaa", []),
        ("aaaa", [0]),
        ("baaaa", [1]),
        ("abcab", []),
        ("abcabc", [0]),
        ("abcaba", [0]),
    ],
)
def test_at_the_caps_of_an_address_and_of_all_the_oldest_makes_room(monkeypatch, addresses, closed):
    monkeypatch.setattr(connections, "PER_ADDRESS", 3)
    monkeypatch.setattr(connections, "CONNECTIONS", 5)
    server = Server()
    assert aborted([server.connect(address) for address in addresses]) == closed


def test_connections_without_an_address_are_not_taken_for_one_address(monkeypatch):
    monkeypatch.setattr(connections, "PER_ADDRESS", 1)
    server = Server()
    assert aborted([server.connect(address) for address in (None, None, "a", None, "b")]) == []


def test_a_connection_that_is_closing_is_not_counted(monkeypatch):
    monkeypatch.setattr(connections, "PER_ADDRESS", 2)
    server = Server()
    opened = [server.connect(), server.connect()]
    opened[0].transport.close()
    assert aborted([*opened, server.connect()]) == []


@pytest.mark.parametrize(
    ("sent", "closed"),
    [((WHOLE, HALF, b""), [1]), ((WHOLE, BODY, b""), [1]), ((b"", WHOLE, HALF), [0]), ((WHOLE, WHOLE, WHOLE), [3])],
)
def test_whole_requests_under_way_keep_their_connections(monkeypatch, sent, closed):
    """Where all have one, the new connection is closed, and has no deadline that would keep it."""
    monkeypatch.setattr(connections, "PER_ADDRESS", 3)
    server = Server()
    opened = [server.connect(sent=each) for each in sent]
    before = len(server.loop.timers)
    opened.append(server.connect())
    assert aborted(opened) == closed
    assert len(server.loop.timers) - before == (closed != [3])


def test_an_answered_request_no_longer_keeps_its_connection():
    opened = Server().connect(sent=WHOLE)
    assert opened.busy
    opened.cycle.response_complete = True
    assert not opened.busy
    assert not Server().connect().busy


@pytest.mark.parametrize(("sent", "runs"), [(b"", True), (HALF, True), (WHOLE, False), (BODY, False)])
def test_the_deadline_of_headers_runs_until_they_are_complete(sent, runs):
    server = Server()
    opened = server.connect(sent=sent)
    (timer,) = server.loop.timers
    assert (timer.seconds, timer.cancelled) == (HEADER_TIMEOUT, not runs)
    timer.call()
    assert opened.transport.aborted


def test_the_headers_of_the_next_request_have_one_deadline_of_their_own():
    server = Server()
    opened = server.connect(sent=WHOLE)
    for event in (h11.Response(status_code=204, headers=[]), h11.EndOfMessage()):
        opened.conn.send(event)
    opened.conn.start_next_cycle()
    for part in (HALF[:5], HALF[5:]):
        opened.data_received(part)
        assert [timer.cancelled for timer in server.loop.timers] == [True, False]
    opened.data_received(WHOLE[len(HALF) :])
    assert [timer.cancelled for timer in server.loop.timers] == [True, True]
    assert server.loop.timers[1].seconds == HEADER_TIMEOUT
    server.loop.timers[1].call()
    assert opened.transport.aborted


def test_deadlines_end_with_their_connection():
    server = Server()
    opened = server.connect()
    opened.pause_writing()
    opened.connection_lost(None)
    assert [timer.cancelled for timer in server.loop.timers] == [True, True]
    assert opened not in server.state.connections
    server.connect(sent=WHOLE).connection_lost(None)


@pytest.mark.parametrize(("taken", "closed"), [(0, True), (READ_PART - 1, True), (READ_PART, False)])
def test_a_reader_takes_a_part_of_its_answer_in_time(taken, closed):
    server = Server()
    opened = server.connect()
    opened.transport.waiting = 3 * READ_PART
    opened.pause_writing()
    opened.pause_writing()
    assert [timer.seconds for timer in server.loop.timers] == [HEADER_TIMEOUT, READ_TIMEOUT], "one, however often"
    opened.transport.waiting -= taken
    server.loop.timers[1].call()
    assert opened.transport.aborted == closed
    assert len(server.loop.timers) == 3 - closed, "the next part has the same time"


def test_the_deadline_of_a_reader_ends_when_the_answer_goes_on_and_begins_anew():
    server = Server()
    opened = server.connect()
    opened.resume_writing()
    for number in (1, 2):
        opened.pause_writing()
        assert len(server.loop.timers) == 1 + number
        opened.resume_writing()
        assert server.loop.timers[number].cancelled


@pytest.mark.parametrize(("waiting", "closed"), [((40, 60, 0), []), ((40, 61, 0), [1]), ((70, 20, 30), [0])])
def test_of_all_unread_answers_the_largest_makes_room(monkeypatch, waiting, closed):
    monkeypatch.setattr(connections, "UNREAD", 100)
    server = Server()
    opened = [server.connect(address) for address in "abc"]
    for each, size in zip(opened, waiting, strict=True):
        each.transport.waiting = size
    opened[0].pause_writing()
    assert aborted(opened) == closed


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [(b"no request\r\n\r\n", b"400", "Invalid HTTP request received."), (CHUNKED, b"411", NO_CHUNKS)],
)
def test_what_is_no_request_is_refused_in_words_and_closed(sent, status, said):
    opened = Server().connect(sent=sent)
    head, _, body = opened.transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in head.lower()
    assert json.loads(body) == {"kind": "Refused", "message": said}
    assert opened.transport.closing
