"""What a route asks of the queue: how a request counts, by which names its progress is found, what a panic becomes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from inspect import iscoroutinefunction
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.requests import Request
from tests.app.conftest import WORDS

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.pages.film import Films
from headscope.app.pages.microscope import RequestProgress, Session
from headscope.app.server.fair_queue import FairQueue, ReaderLeftError, Turn
from headscope.app.server.routes import census, classroom, lab, learn, microscope, models
from headscope.app.server.worker import DISCONNECTED, LARGE_MODEL, RequestWorker

CRAFT = {"sentence": "a red dog", "targets": [{"name": "t", "arrows": [[1, 0]]}], "steps": 3}
IN_FILE_THREADS = {
    *(f"GET /api/{name}" for name in ("films", "cards", "lessons", "class", "class/progress.csv")),
    *(f"GET /api/lab/{name}" for name in ("exercise", "by-hand", "one-or-many")),
    *(f"POST /api/lab/{name}" for name in ("sentence", "arrows", "worked", "exercise", "fork")),
    *(f"POST /api/class/{name}" for name in ("show", "open", "answers", "ask", "stop-showing", "end")),
    "GET /class/teacher",
}


def routers(worker: RequestWorker) -> list[APIRouter]:
    """The routes of every page."""
    pages = [each.routes(worker) for each in (models, microscope, lab)]
    held = [learn.routes(worker, Films(), None), classroom.routes(worker, None)]
    return [*pages, *held, census.routes(worker, Censuses())]


def request(name: str = "", address: str = "10.0.0.1") -> Request:
    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    query = f"request={name}".encode()
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": query, "client": (address, 1)}
    return Request(scope, receive)


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/api/look", {"text": "the old lamp"}, "short"),
        ("/api/look", {"text": " ".join(WORDS) * 400}, "long"),
        ("/api/token", {"text": "lamp"}, "short"),
        ("/api/why", {"look": "x", "head": "0.0", "query": 1, "key": 0}, "long"),
        ("/api/trace", {"look": "x", "position": 0, "token": 1}, "long"),
        ("/api/roles", {}, "long"),
        ("/api/cut-path", {"look": "x", "writer": "0.0", "reader": "1.0", "query": 1}, "long"),
        ("/api/media", {"data": "AAAA"}, "long"),
        ("/api/received", {"look": "x", "head": "0.0"}, "short"),
        ("/api/censuses", {"text": "the old lamp " * 40}, "long"),
        ("/api/models", {"name": "gpt2"}, "whole"),
        ("/api/card", {"name": "gpt2"}, "whole"),
        ("/api/lab/craft", CRAFT, "long"),
        ("/api/lab/craft/open", CRAFT, "long"),
        ("/api/lab/by-hand/open", {"role": "induction"}, "short"),
        ("/api/lab/one-or-many", {"experiment": "arms"}, "long"),
    ],
)
def test_requests_wait_as_short_long_or_whole_ones(client, monkeypatch, path, body, kind):
    seen: list[str] = []

    async def run(queue: FairQueue, turn: Turn, work: Any) -> None:
        seen.append(turn.kind)
        raise ReaderLeftError

    monkeypatch.setattr(FairQueue, "run", run)
    answer = client.post(path, json=body)
    assert answer.status_code == DISCONNECTED, answer.text
    assert seen == [kind]


@pytest.mark.parametrize(
    ("path", "queue", "kind"),
    [
        ("/api/lessons/3", "lessons", "whole"),
        ("/api/worksheet", "lessons", "whole"),
        ("/api/censuses", "censuses", "short"),
        ("/api/censuses/1", "censuses", "short"),
        ("/api/censuses/1/head?head=0.0&question=induction", "censuses", "short"),
        ("/api/censuses/1/files", "censuses", "long"),
        ("/api/censuses/1/against/1", "censuses", "long"),
        ("/api/film", "films", "short"),
        ("/api/roles", "reports", "short"),
        ("/api/featured", "reports", "short"),
    ],
)
def test_what_a_page_computes_waits_in_the_queue_of_its_kind(session, monkeypatch, path, queue, kind):
    worker, app, seen = RequestWorker(ModelRegistry(session)), FastAPI(), []
    for router in routers(worker):
        app.include_router(router)

    async def run(queue: FairQueue, turn: Turn, work: Any) -> None:
        seen.append((queue, turn.kind))
        raise ReaderLeftError

    monkeypatch.setattr(FairQueue, "run", run)
    assert TestClient(app).get(path).status_code == DISCONNECTED
    assert seen == [(getattr(worker, queue), kind)]


def test_what_runs_in_the_threads_that_files_are_read_with_computes_nothing():
    """A new route that FastAPI would run there belongs in a queue, unless it takes about as long as a file."""
    found = [route for router in routers(RequestWorker(ModelRegistry())) for route in router.routes]
    here = [route for route in found if isinstance(route, APIRoute) and not iscoroutinefunction(route.endpoint)]
    assert {f"{method} {route.path}" for route in here for method in route.methods} == IN_FILE_THREADS


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [("mine", "mine", True), ("mine", "", True), ("mine", "other", False), ("a" * 65, "a" * 64, True)],
)
def test_progress_is_found_by_name_while_the_request_runs(session: Session, name: str, asked: str, found: bool):
    worker = RequestWorker(ModelRegistry(session))

    def work() -> tuple[RequestProgress, RequestProgress]:
        queue, turn = worker._turns["10.0.0.1", ""]
        turn.progress = ("reading", 1, 2)
        assert (turn.kind, queue) == ("long", worker.training)
        return worker.progress(request(), asked), worker.progress(request(address="10.0.0.2"), asked)

    mine, of_another = asyncio.run(worker.run_in(worker.training, request(name), work))  # type: ignore[misc]
    assert mine == (RequestProgress(what="reading", done=1, total=2, place=0) if found else RequestProgress())
    assert of_another == RequestProgress() == worker.progress(request(), asked)


def test_the_end_of_a_request_does_not_hide_a_later_one_of_the_same_name(session: Session):
    worker = RequestWorker(ModelRegistry(session))

    async def scene() -> RequestProgress:
        before = asyncio.all_tasks()
        queue, first, second = FairQueue(), Turn("10.0.0.1"), Turn("10.0.0.1")
        second.progress = ("second", 1, 2)
        outer = worker.watching(queue, first, request("a"))
        await outer.__aenter__()
        async with worker.watching(queue, second, request("a")):
            await outer.__aexit__(None, None, None)
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks() - before) == 1, "nobody watches for the end of the first one any more"
            assert worker._under_way == {"10.0.0.1": 1}
            return worker.progress(request(), "a")

    assert asyncio.run(scene()).what == "second"
    assert not worker._turns
    assert not worker._under_way


def test_the_requests_of_others_do_not_hide_anyone_s_progress(session: Session):
    worker, turn = RequestWorker(ModelRegistry(session)), Turn("10.0.0.1")
    turn.progress = ("mine", 1, 2)

    async def scene() -> RequestProgress:
        async with AsyncExitStack() as under_way:
            await under_way.enter_async_context(worker.watching(FairQueue(), turn, request("a")))
            for number in range(2_048):
                other = Turn(f"client {number}")
                await under_way.enter_async_context(worker.watching(FairQueue(), other, request("a")))
            return worker.progress(request(), "a")

    assert asyncio.run(scene()).what == "mine"
    assert not worker._turns


@pytest.mark.parametrize(("asked", "counts"), [({}, False), ({"kind": "long"}, True)])
def test_work_on_a_model_is_short_unless_said(session: Session, asked: dict[str, bool], counts: bool):
    worker = RequestWorker(ModelRegistry(session))
    found = asyncio.run(worker.run(request(), None, lambda _: worker._turns["10.0.0.1", ""][1].long, **asked))
    assert found is counts


def test_a_model_of_gpt2_s_size_is_large_and_a_third_of_it_is_not():
    assert 124_439_808 // 3 < LARGE_MODEL < 124_439_808
