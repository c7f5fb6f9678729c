"""The guard as plain ASGI: what it passes on, its headers, and failures of the application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from headscope.app.server import clients
from headscope.app.server.clients import whole_body
from headscope.app.server.guard import HEADERS, INTERNAL_ERROR, Guard

OWN = [(b"host", b"127.0.0.1:8765")]
JSON = [*OWN, (b"content-type", b"application/json")]


def scope(method: str = "GET", headers: list[tuple[bytes, bytes]] = OWN, path: str = "/api/model") -> dict[str, Any]:
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "scheme": "http", "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 5),
    }  # fmt: skip


def ask(app: Any, asked: dict[str, Any], *parts: dict[str, Any]) -> list[dict[str, Any]]:
    """What is sent back when these parts of a body arrive; then the client waits."""
    sent: list[dict[str, Any]] = []
    coming = iter(parts or ({"type": "http.request", "body": b"", "more_body": False},))

    async def receive() -> dict[str, Any]:
        return next(coming, None) or await asyncio.sleep(60, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Guard(app)(asked, receive, send))  # type: ignore[arg-type]
    return sent


def status(sent: list[dict[str, Any]]) -> int:
    return int(sent[0]["status"])


async def says_hello(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello " + body})


def test_every_response_has_every_security_header():
    for asked in (scope(), scope(headers=[(b"host", b"evil.example")]), scope("POST", JSON)):
        result = {name.decode(): value.decode() for name, value in ask(says_hello, asked)[0]["headers"]}
        assert {name.lower() for name in HEADERS} <= set(result)
        assert result["cache-control"] == "no-cache"


def test_a_web_socket_is_closed_before_the_application():
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the guard let it in")

    assert ask(never, {"type": "websocket"}) == [{"type": "websocket.close", "code": 1008}]


def test_a_failure_before_the_response_is_a_500_and_is_logged():
    sent: list[dict[str, Any]] = []

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("secret")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    with pytest.raises(ZeroDivisionError):
        asyncio.run(Guard(fails)(scope(), receive, send))  # type: ignore[arg-type]
    assert status(sent) == 500
    assert json.loads(sent[1]["body"]) == {"kind": "Refused", "message": INTERNAL_ERROR}


def test_a_failure_during_a_response_does_not_start_a_second_one():
    sent: list[dict[str, Any]] = []

    async def fails_late(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    with pytest.raises(ZeroDivisionError):
        asyncio.run(Guard(fails_late)(scope(), receive, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["http.response.start"]


def test_a_body_over_the_limit_is_refused_while_it_arrives(monkeypatch):
    monkeypatch.setattr(clients, "MAX_BODY", 10)
    taken: list[int] = []

    def endless() -> Any:
        for number in range(100):
            taken.append(number)
            yield {"type": "http.request", "body": b"12345", "more_body": True}

    sent = ask(says_hello, scope("POST", JSON), *[])
    assert status(sent) == 200
    coming = endless()

    async def receive() -> dict[str, Any]:
        return dict(next(coming))

    with pytest.raises(HTTPException, match="at most 8 MiB") as refused:
        asyncio.run(whole_body(scope("POST", JSON), receive))  # type: ignore[arg-type]
    assert (len(taken), refused.value.status_code) == (3, 413)
