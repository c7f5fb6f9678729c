"""Streams: lines in order, errors as the last line, and an end when the client disconnects."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from tests.e2e.conftest import running

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.one_or_many import RunBegun
from headscope.app.server.errors import add_error_handlers
from headscope.app.server.fair_queue import ReaderLeftError
from headscope.app.server.streaming import Queue, _sent, stream
from headscope.app.server.worker import RequestWorker
from headscope.errors import InputError


def app_for(work) -> FastAPI:
    app, worker = FastAPI(), RequestWorker(ModelRegistry())
    add_error_handlers(app)

    @app.get("/work")
    async def frames_of(request: Request) -> Any:
        return await stream(worker, worker.training, request, work)

    return app


def begin(emit) -> None:
    emit(RunBegun(arms=["a"]))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("the candle in /home/me/box went out"), "the candle in …/box went out"),
        (ZeroDivisionError("secret"), "the program failed while it was working; try again"),
    ],
)
def test_an_error_in_the_middle_is_the_last_frame(error, said, caplog):
    def work(emit):
        begin(emit)
        raise error

    begun, last = map(json.loads, TestClient(app_for(work)).get("/work").text.splitlines())
    assert begun["arms"] == ["a"]
    assert last == {"event": "problem", "kind": type(error).__name__, "message": said}
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert logged == ([] if isinstance(error, InputError) else [error]), "an unexpected error reaches the log"


def test_a_stream_that_is_closed_between_two_frames_gives_up_its_turn():
    left = []

    async def scene() -> None:
        ended = asyncio.create_task(asyncio.sleep(0))
        sent = _sent(b"first", Queue(), lambda: left.append("left"), ended)
        assert await anext(sent) == b"first"
        assert not left
        await sent.aclose()
        await ended

    asyncio.run(scene())
    assert left == ["left"]


def test_work_stops_when_the_client_disconnects():
    stopped = threading.Event()

    def work(emit):
        try:
            while True:
                begin(emit)
                time.sleep(0.01)
        except ReaderLeftError:
            stopped.set()
            raise

    with running(app_for(work)) as address:
        with httpx.stream("GET", f"{address}work", timeout=60) as answer:
            next(answer.iter_bytes())
        assert stopped.wait(60)
