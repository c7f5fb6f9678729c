"""Requests whose client leaves: statuses, the watch for a disconnect, what the queue and the counts keep of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import Session
from headscope.app.server import worker as worker_module
from headscope.app.server.worker import DISCONNECTED, RequestWorker

LONG_WAIT = 60.0


def bounded(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await asyncio.wait_for(test(), LONG_WAIT)

    asyncio.run(within())


class Connection:
    """A client's side of a request: what its server receives is put in here."""

    def __init__(self, query: str = "") -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": query.encode(), "headers": []}
        self.request = Request(scope | {"client": ("127.0.0.1", 1)}, self.messages.get)

    def send(self, kind: str) -> None:
        self.messages.put_nowait({"type": kind})


@pytest.fixture
def worker(session: Session) -> RequestWorker:
    return RequestWorker(ModelRegistry(session))


def test_a_request_of_a_client_that_has_gone_is_not_run(worker: RequestWorker) -> None:
    async def leave_first() -> None:
        client, ran = Connection(), []
        client.send("http.disconnect")
        answer = await worker.run_in(worker.training, client.request, lambda: ran.append(1))
        assert isinstance(answer, Response)
        assert (answer.status_code, ran) == (DISCONNECTED, [])
        assert DISCONNECTED == 499

    bounded(leave_first)


def test_a_client_has_so_many_requests_under_way_and_they_are_counted_down(
    worker: RequestWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "UNDER_WAY", 1)

    async def ask_twice() -> None:
        go_on, queue = threading.Event(), worker.training
        first = asyncio.create_task(worker.run_in(queue, Connection().request, lambda: go_on.wait(LONG_WAIT)))
        while not worker._under_way:
            await asyncio.sleep(0.01)
        with pytest.raises(HTTPException) as refused:
            await worker.run_in(queue, Connection().request, lambda: None)
        assert (refused.value.status_code, refused.value.detail) == (
            429, "1 requests of yours are under way; wait for their answers",
        )  # fmt: skip
        go_on.set()
        assert await first is True
        assert await worker.run_in(queue, Connection().request, lambda: "again") == "again"
        assert not worker._under_way

    bounded(ask_twice)
