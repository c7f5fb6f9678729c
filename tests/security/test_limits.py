"""Limits on request sizes, times and limiter."""

from __future__ import annotations

import socket

import httpx
import pytest
from fastapi.testclient import TestClient

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import MAX_CHARACTERS
from headscope.app.server import HOST, application, clients
from headscope.app.server.clients import ADDRESSES, AT_ONCE, PER_SECOND, RateLimiter

pytestmark = pytest.mark.promise("Limits")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_64_clients_behind_one_address_stay_below_the_rate_limit():
    clock = Clock()
    limiter = RateLimiter(clock)
    assert all(limiter.allow("school") for _ in range(64 * 20)), "opening the page at once"
    for _ in range(60 * 60):  # one minute at 60 frames per second: 64 clients, ten requests per second each
        clock.now += 1 / 60
        assert all(limiter.allow("school") for _ in range(64 * 10 // 60))


def test_a_client_in_a_loop_is_limited_alone_and_only_for_a_while():
    clock = Clock()
    limiter = RateLimiter(clock)
    allowed = sum(limiter.allow("loop") for _ in range(5_000))
    assert allowed == AT_ONCE
    assert limiter.allow("somebody else")
    clock.now += 1
    assert sum(limiter.allow("loop") for _ in range(5_000)) == PER_SECOND


def test_the_number_of_remembered_addresses_is_limited():
    limiter = RateLimiter(Clock())
    while limiter.allow("first"):
        pass
    for number in range(ADDRESSES):
        limiter.allow(str(number))
    assert limiter.allow("first"), "forgotten after so many others"


def test_a_clock_that_stops_or_goes_back_never_raises_the_limit():
    clock = Clock()
    limiter = RateLimiter(clock)
    while limiter.allow("x"):
        pass
    clock.now -= 100
    assert not limiter.allow("x")
    clock.now += 1
    assert limiter.allow("x")


def test_the_server_answers_429_above_the_rate_limit(session, monkeypatch):
    monkeypatch.setattr(clients, "AT_ONCE", 3.0)
    monkeypatch.setattr(clients, "PER_SECOND", 0.0)
    with TestClient(application(ModelRegistry(session)), base_url=f"http://{HOST}") as client:
        answers = [client.get("/icon.svg") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["message"] == "too many requests at once from this address; wait a second"


def test_a_large_content_length_is_refused_before_the_body_is_sent(address):
    port = int(address.rstrip("/").rpartition(":")[2])
    with socket.create_connection((HOST, port), timeout=60) as line:
        head = f"POST /api/look HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {2**40}"
        line.sendall(f"{head}\r\n\r\n".encode())
        assert line.recv(64).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_content_length_is_refused(address):
    answer = httpx.post(
        f"{address}api/look", content=iter([b"{}"]), headers={"content-type": "application/json"}, timeout=60
    )
    assert answer.status_code == 411
    assert answer.json() == {"kind": "Refused", "message": "send the body's Content-Length; chunks are not taken"}


def test_a_body_that_does_not_arrive_times_out(address, monkeypatch):
    monkeypatch.setattr(clients, "BODY_TIMEOUT", 0.3)
    port = int(address.rstrip("/").rpartition(":")[2])
    with socket.create_connection((HOST, port), timeout=60) as line:
        head = f"POST /api/look HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: 9"
        line.sendall(f"{head}\r\n\r\n{{".encode())
        assert line.recv(64).startswith(b"HTTP/1.1 408 ")


def test_the_longest_text_fits_in_any_encoding(client):
    for text in ("a" * MAX_CHARACTERS, "é" * (MAX_CHARACTERS - 1)):
        assert client.post("/api/look", json={"text": text}).status_code in (200, 422)


def test_deeply_nested_or_huge_json_is_a_plain_error(client):
    for body in (
        b"[" * 2**20,
        b'{"text": ' * 2**16,
        b'{"look": ' + b"9" * 10**6 + b"}",
        b"\xff\xfe",
        b'{"text": "\\ud800',
    ):
        answer = client.post("/api/look", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 413, 422)
        assert set(answer.json()) == {"kind", "message"}
        assert len(answer.content) < 1000
