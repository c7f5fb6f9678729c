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
from headscope.app.server.fair_queue import SLICE, FairQueue, ReaderLeftError, Turn
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


def test_only_a_disconnect_takes_a_request_out_of_the_line(worker: RequestWorker) -> None:
    async def leave_while_waiting() -> None:
        go_on, queue, ran = threading.Event(), worker.training, []
        first = asyncio.create_task(queue.run(Turn("another"), lambda: go_on.wait(LONG_WAIT)))
        await asyncio.sleep(0)
        client = Connection("request=mine")
        asked = asyncio.create_task(worker.run_in(queue, client.request, lambda: ran.append(1)))
        client.send("http.request")  # what comes before a disconnect changes nothing
        client.send("http.request")
        while worker.progress(client.request, "mine").place != 1:
            await asyncio.sleep(0.01)
        assert not asked.done()
        client.send("http.disconnect")
        answer = await asked
        assert answer.status_code == DISCONNECTED  # type: ignore[union-attr]
        assert worker.progress(client.request, "mine").place == 0
        go_on.set()
        await first
        assert ran == []

    bounded(leave_while_waiting)


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


def test_a_short_request_that_leaves_no_longer_takes_the_model_from_a_long_one() -> None:
    """While a short one waits, a long reading hands over at once; when it has left, after a slice."""

    async def leave() -> None:
        now, queue, go_on = [0.0], FairQueue(lambda: now[0]), threading.Event()
        reading, paused = Turn("long", "long"), []
        first = asyncio.create_task(queue.run(reading, lambda: go_on.wait(LONG_WAIT)))
        while not reading.begun:
            await asyncio.sleep(0.01)
        queue._hand_over = lambda turn: paused.append(turn)  # type: ignore[method-assign]
        short, other = Turn("short"), Turn("other", "long")
        waiting = [asyncio.create_task(queue.run(turn, lambda: None)) for turn in (short, other)]
        while queue.place(other) != 2:
            await asyncio.sleep(0.01)
        queue.pause(reading)
        assert paused == [reading], "a short one waits"
        queue.leave(short)
        with pytest.raises(ReaderLeftError):
            await waiting[0]
        queue.pause(reading)
        assert len(paused) == 1, "only a long one waits, and the slice has not ended"
        now[0] = SLICE
        queue.pause(reading)
        assert len(paused) == 2
        go_on.set()
        await first
        await waiting[1]

    bounded(leave)
