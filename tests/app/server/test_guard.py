"""The guard as plain ASGI: what it passes on, its headers, and failures of the application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headscope.app.server import clients
from headscope.app.server.clients import MAX_BODY, whole_body
from headscope.app.server.guard import HEADERS, INTERNAL_ERROR, Guard, _length, is_loopback

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


def test_lifespan_events_pass_through():
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    ask(app, {"type": "lifespan"})
    assert heard == ["lifespan"]


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


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("POST", JSON, 200),
        ("POST", [*OWN, (b"content-type", b"Application/JSON; charset=utf-8")], 200),
        ("POST", OWN, 200),
        ("POST", [*OWN, (b"content-length", b"0")], 200),
        ("POST", [*OWN, (b"content-length", b"4")], 415),
        ("POST", [*OWN, (b"transfer-encoding", b"chunked")], 411),
        ("POST", [*OWN, (b"content-type", b"application/json-seq")], 415),
        ("PUT", [*OWN, (b"content-type", b"text/plain")], 415),
        ("HEAD", [*OWN, (b"content-type", b"text/plain")], 200),
        ("POST", [*JSON, (b"content-length", str(MAX_BODY).encode())], 200),
        ("POST", [*JSON, (b"content-length", str(MAX_BODY + 1).encode())], 413),
        ("GET", [*OWN, (b"content-length", str(MAX_BODY + 1).encode())], 413),
        ("POST", [*JSON, (b"content-length", b"-5")], 200),
        ("POST", [*JSON, (b"origin", b"http://127.0.0.1:8765")], 200),
        ("POST", [*JSON, (b"origin", b"http://127.0.0.1")], 403),
        ("GET", [(b"origin", b"http://127.0.0.1:8765")], 400),
        ("GET", [*OWN, (b"sec-fetch-site", b"same-origin")], 200),
        ("GET", [*OWN, (b"sec-fetch-site", b"none")], 200),
        ("GET", [*OWN, (b"sec-fetch-site", b"cross-site")], 403),
    ],
)
def test_hosts_origins_and_content_types_are_allowed_or_refused(method, headers, expected):
    assert status(ask(says_hello, scope(method, headers))) == expected


@pytest.mark.parametrize("path", ["/api", "/api/model", "/apix"])
def test_a_cross_site_link_cannot_open_api_paths(path):
    link = [(b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document")]
    assert status(ask(says_hello, scope(headers=[*OWN, *link], path=path))) == 403
    assert status(ask(says_hello, scope(headers=[*OWN, *link], path="/"))) == 200


def test_a_refusal_truncates_what_it_quotes():
    long = b"x" * 5_000
    for headers in ([(b"host", long)], [*OWN, (b"origin", long)], [*OWN, (b"content-type", long)]):
        sent = ask(says_hello, scope("POST", headers))
        assert status(sent) in (400, 403, 415)
        quoted = json.loads(sent[1]["body"])["message"].split("'")[1]
        assert quoted == "x" * 80


def test_a_chunked_body_is_delivered_whole_and_once():
    pieces = [{"type": "http.request", "body": bytes([65 + n]), "more_body": n < 3} for n in range(4)]
    assert ask(says_hello, scope("POST", JSON), *pieces)[1]["body"] == b"hello ABCD"


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


@pytest.mark.parametrize(
    ("said", "length"),
    [(b"", 0), (b"0", 0), (b"12", 12), (b"-5", 0), (b"+5", 0), (b"1e3", 0), (b"9" * 5_000, MAX_BODY + 1)],
)
def test_the_length_of_a_body_is_read_from_its_header(said, length):
    assert _length(Request(scope("POST", [*JSON, (b"content-length", said)]))) == length


@pytest.mark.parametrize(
    ("size", "counted"), [(clients.SMALL_BODY, 0), (clients.SMALL_BODY + 1, clients.SMALL_BODY + 1)]
)
def test_small_bodies_are_not_counted_and_always_taken(size, counted):
    async def scene() -> None:
        held, before = clients.HeldBodies(), clients.HELD_BODIES - counted
        async with held.holding("a", before):
            async with held.holding("b", size):
                assert held.size == clients.HELD_BODIES
            assert held.size == before

    asyncio.run(scene())


def test_a_body_may_be_as_long_as_the_limit_and_its_last_part_need_not_say_so(monkeypatch):
    monkeypatch.setattr(clients, "MAX_BODY", 10)
    parts = iter(
        [{"type": "http.request", "body": b"12345", "more_body": True}, {"type": "http.request", "body": b"67890"}]
    )

    async def receive() -> dict[str, Any]:
        return dict(next(parts))

    async def whole() -> Any:
        return await (await whole_body(scope("POST", JSON), receive))()  # type: ignore[arg-type]

    assert asyncio.run(whole()) == {"type": "http.request", "body": b"1234567890", "more_body": False}


def test_a_request_without_an_address_is_limited_too(monkeypatch):
    monkeypatch.setattr(clients, "AT_ONCE", 0.0)
    assert status(ask(says_hello, scope() | {"client": None})) == 429


def test_a_refusal_closes_the_connection_and_an_answer_does_not():
    for asked, closes in ((scope("PUT", [*OWN, (b"content-type", b"text/plain")]), True), (scope(), False)):
        assert ((b"connection", b"close") in ask(says_hello, asked)[0]["headers"]) == closes


def test_all_bodies_together_may_reach_their_limit_and_not_pass_it():
    async def scene() -> None:
        held = clients.HeldBodies()
        async with held.holding("a", clients.HELD_BODIES):
            pass
        with pytest.raises(HTTPException, match="503"):
            await held.holding("a", clients.HELD_BODIES + 1).__aenter__()
        async with held.holding("a", clients.HELD_BODIES):
            with pytest.raises(HTTPException, match="503"):
                await held.holding("a", clients.SMALL_BODY + 1).__aenter__()
        assert held.size == 0

    asyncio.run(scene())


def test_the_newest_body_of_who_holds_the_most_makes_room_until_its_answer_begins(monkeypatch):
    """Client a holds 60 and 30 of 100 bytes: 20 of b end the newer one, 40 of c then the older one."""
    monkeypatch.setattr(clients, "HELD_BODIES", 100)
    monkeypatch.setattr(clients, "SMALL_BODY", 10)

    async def hold(held: clients.HeldBodies, size: int) -> str:
        try:
            async with held.holding("a", size):
                await asyncio.Event().wait()
        except HTTPException as refused:
            return f"{size}: {refused.status_code}"
        return "never ended"

    async def scene() -> None:
        held = clients.HeldBodies()
        older, newer = (asyncio.create_task(hold(held, size)) for size in (60, 30))
        await asyncio.sleep(0)
        async with held.holding("b", 20):
            assert (await newer, older.done(), held.size) == ("30: 503", False, 80)
            async with held.holding("b", 20) as release:
                assert (older.done(), held.size) == (False, 100)
                with pytest.raises(HTTPException, match="503"):
                    await held.holding("b", 20).__aenter__()
                release()
                assert held.size == 80, "its answer has begun"
            async with held.holding("c", 40):
                assert (await older, held.size) == ("60: 503", 60)

    asyncio.run(scene())


def test_a_disconnect_before_the_end_of_the_body_is_passed_on():
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return dict(next(parts))

    async def heard() -> Any:
        again = await whole_body(scope("POST", JSON), receive)  # type: ignore[arg-type]
        return [await again(), await again()]

    assert asyncio.run(heard()) == [{"type": "http.disconnect"}] * 2


def test_messages_after_the_body_are_passed_on():
    parts = iter([{"type": "http.request", "body": b"{}", "more_body": False}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return dict(next(parts))

    async def heard() -> Any:
        again = await whole_body(scope("POST", JSON), receive)  # type: ignore[arg-type]
        return [await again(), await again()]

    body, then = asyncio.run(heard())
    assert (body["body"], body["more_body"], then["type"]) == (b"{}", False, "http.disconnect")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_get_request_s_body_is_not_awaited(method):
    async def receive() -> dict[str, Any]:
        raise AssertionError("nobody should ask")

    assert asyncio.run(whole_body(scope(method), receive)) is receive  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.255.255.254", True), ("::1", True), ("::ffff:8.8.8.8", False), ("128.0.0.1", False),
     ("0.0.0.0", False), ("localhost", False), ("", False), ("127.1", False)],
)  # fmt: skip
def test_loopback_addresses(host, own):
    assert is_loopback(host) is own
