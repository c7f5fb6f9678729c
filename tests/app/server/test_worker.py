"""How a question reaches a model: one at a time, off the event loop, within memory, and not for those who left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from fastapi import Request
from tests.e2e.conftest import served

from headscope.app.model_registry import Shelf
from headscope.app.pages import schema
from headscope.app.pages.microscope import Session
from headscope.app.server import worker
from headscope.app.server.worker import GONE, ContainerResponse, Desks
from headscope.app.wire import unpack
from headscope.errors import InputError

ROOT = Path(__file__).parents[3]
TEXT = "the old lamp on the landing burned until morning"
SLOW = " ".join(["the old lamp on landing burned until morning ."] * 100)


def visitor(stays: bool = True) -> Request:
    """A request of somebody who waits for the answer, or of somebody who has closed the page."""

    async def receive() -> dict[str, str]:
        if stays:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_the_model_is_asked_one_thing_at_a_time(session):
    desks, busy, seen = Desks(Shelf(session)), threading.Lock(), []

    def work(_: Session) -> int:
        assert busy.acquire(blocking=False), "two at once"
        time.sleep(0.01)
        busy.release()
        seen.append(threading.get_ident())
        return len(seen)

    async def everybody() -> list[object]:
        return await asyncio.gather(*(desks.answer(visitor(), None, work) for _ in range(8)))

    assert asyncio.run(everybody()) == list(range(1, 9)), "and in the order in which they came"
    assert threading.get_ident() not in seen, "not on the event loop"


def test_two_models_do_not_wait_for_each_other(scope):
    sessions = {"one": Session(scope), "two": Session(scope)}
    shelf, meet = Shelf(), threading.Barrier(2, timeout=5)
    shelf.sessions = lambda: sessions  # type: ignore[method-assign]
    desks = Desks(shelf)

    async def both() -> list[object]:
        return await asyncio.gather(*(desks.answer(visitor(), name, lambda _: meet.wait()) for name in sessions))

    assert sorted(asyncio.run(both())) == [0, 1]  # type: ignore[type-var]


def test_a_small_model_gets_one_thread_and_a_large_one_all(session, monkeypatch):
    monkeypatch.setattr(worker, "CORES", 3)
    desks, before = Desks(Shelf(session)), torch.get_num_threads()

    def given() -> object:
        return asyncio.run(desks.answer(visitor(), None, lambda _: torch.get_num_threads()))

    assert session.parameters == session.scope.model.model.num_parameters()
    monkeypatch.setattr(worker, "LARGE_MODEL", session.parameters)
    assert given() == 1
    monkeypatch.setattr(worker, "LARGE_MODEL", session.parameters - 1)
    assert given() == 3
    assert torch.get_num_threads() == before


def test_nothing_is_computed_for_a_person_who_has_left(session):
    done: list[Session] = []
    answer = asyncio.run(Desks(Shelf(session)).answer(visitor(stays=False), None, done.append))
    assert answer.status_code == GONE  # type: ignore[union-attr]
    assert done == []


def test_a_person_who_left_gets_no_container_either(session):
    answer = asyncio.run(Desks(Shelf(session)).packed(visitor(stays=False), None, lambda _: pytest.fail("asked")))
    assert (answer.status_code, answer.body) == (GONE, b"")
    assert not isinstance(answer, ContainerResponse)


def test_an_answer_with_arrays_travels_as_a_container(session):
    card, array = schema.ImportanceCard(look="x", read=3), np.arange(4, dtype=np.float32)
    answer = asyncio.run(Desks(Shelf(session)).packed(visitor(), None, lambda _: (card, {"importance": array})))
    assert answer.media_type == "application/x-headscope"
    found = unpack(bytes(answer.body))
    assert found.values == {"look": "x", "read": 3}
    np.testing.assert_array_equal(found.arrays["importance"], array)


def test_an_error_lets_the_next_one_in(session):
    desks = Desks(Shelf(session))

    def fails(_: Session) -> None:
        raise InputError("no candle")

    async def one_after_the_other() -> object:
        with pytest.raises(InputError, match="no candle"):
            await desks.answer(visitor(), None, fails)
        return await desks.answer(visitor(), None, lambda _: "lit")

    assert asyncio.run(one_after_the_other()) == "lit"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to"),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_where_memory_runs_out_what_was_kept_is_let_go_and_a_sentence_said(session, error):
    session.look(schema.LookRequest(text=TEXT))
    assert session._looks

    def fills(_: Session) -> None:
        raise error

    with pytest.raises(InputError, match="there is not enough memory for this; try a shorter text, or a smaller model"):
        asyncio.run(Desks(Shelf(session)).answer(visitor(), None, fills))
    assert not session._looks


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ZeroDivisionError("x")])
def test_another_failure_is_not_taken_for_a_full_memory(session, error):
    session.look(schema.LookRequest(text=TEXT))

    def fails(_: Session) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(Desks(Shelf(session)).answer(visitor(), None, fails))
    assert caught.value is error
    assert session._looks, "and nothing is thrown away for it"


FULL = """
import resource, torch
torch.set_num_threads(1)
from fastapi.testclient import TestClient
import headscope
from headscope.app.server import application
from headscope.app.pages.microscope import Session
from headscope.app.model_registry import Shelf
from headscope.app.wire import unpack
from tests.app.conftest import small_model, word_tokenizer
session = Session(headscope.load(small_model(1), word_tokenizer()))
with TestClient(application(Shelf(session)), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
    look = unpack(client.post("/api/look", json={"text": "the old lamp " * 200}).content).values["look"]
    asked = {"look": look, "head": "0.0", "rows": [0, 600], "columns": [0, 600]}
    small = asked | {"rows": [0, 5]}
    assert client.post("/api/weights", json=small).status_code == 200
    here = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + 2**20, resource.RLIM_INFINITY))
    full = client.post("/api/weights", json=asked)
    print(full.status_code, full.text[:99] if full.is_error else "", len(session._looks))
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(client.post("/api/weights", json=asked).status_code, client.get("/api/progress").json()["what"] == "")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a process is told here how far it may grow")
def test_a_process_that_may_not_grow_says_so_and_goes_on_when_it_may():
    """The allocator itself refuses, deep inside torch: 600 × 600 weights where one megabyte is left."""
    settled = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FULL]
    done = subprocess.run(command, cwd=ROOT, env=settled, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, then = done.stdout.splitlines()
    assert "there is not enough memory for this; try a shorter text" in refused
    assert (refused[:3], refused[-2:]) == ("422", " 0"), "and what was kept is let go"
    assert then == "200 True"


def test_the_page_and_its_progress_are_answered_while_the_model_reads(session):
    with served(session) as address, ThreadPoolExecutor(1) as pool, httpx.Client(base_url=address) as person:
        reading = pool.submit(httpx.post, f"{address}api/look", json={"text": SLOW}, timeout=120)
        while not (heard := person.get("/api/progress").json())["what"]:
            assert not reading.done(), "the text was read before anybody was told"
        assert person.get("/").status_code == person.get("/api/model").status_code == 200
        assert reading.result().status_code == 200
        assert heard["total"] == 2
        assert person.get("/api/progress").json() == {"what": "", "done": 0, "total": 0}


def test_two_tabs_with_two_texts_get_their_own(session, scope):
    texts = [TEXT, "the old lamp burned"]

    def tab(text: str) -> None:
        with httpx.Client(base_url=address, timeout=60) as person:
            look = unpack(person.post("/api/look", json={"text": text}).content).values["look"]
            for head in ("0.0", "1.5", "0.3"):
                asked = {"look": look, "head": head, "rows": [0, 99], "columns": [0, 99]}
                found = unpack(person.post("/api/weights", json=asked).content)
                np.testing.assert_allclose(found.arrays["weights"], scope.look(text).pattern(head), atol=1e-6)

    with served(session) as address, ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(tab, text) for text in texts]:
            done.result()
