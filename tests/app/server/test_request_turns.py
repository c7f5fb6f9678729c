"""What a route asks of the queue: how a request counts, by which names its progress is found, what a panic becomes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from starlette.requests import Request

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.census import Censuses
from headscope.app.pages.film import Films
from headscope.app.pages.microscope import RequestProgress, Session
from headscope.app.server.fair_queue import FairQueue, ReaderLeftError, Turn
from headscope.app.server.routes import census, classroom, lab, learn, microscope
from headscope.app.server.worker import DISCONNECTED, RequestWorker


def routers(worker: RequestWorker) -> list[APIRouter]:
    """The routes of every page."""
    pages = [each.routes(worker) for each in (microscope, lab)]
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


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [("mine", "mine", True), ("mine", "", True), ("mine", "other", False), ("a" * 65, "a" * 64, True)],
)
def test_progress_is_found_by_name_while_the_request_runs(session: Session, name: str, asked: str, found: bool):
    worker = RequestWorker(ModelRegistry(session))

    def work() -> list[RequestProgress]:
        queue, turn = worker._turns["10.0.0.1", ""]
        turn.progress = ("reading", 1, 2)
        assert (turn.kind, queue) == ("long", worker.training)
        return [worker.progress(request(), asked), worker.progress(request(address="10.0.0.2"), asked)]

    mine, of_another = asyncio.run(worker.run_in(worker.training, request(name), work))  # type: ignore[misc]
    assert mine == (RequestProgress(what="reading", done=1, total=2, place=0) if found else RequestProgress())
    assert of_another == RequestProgress() == worker.progress(request(), asked)


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
