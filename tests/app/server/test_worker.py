"""The worker: one request per model at a time, off the event loop, within memory, skipping disconnected clients."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import torch
from fastapi import Request
from tests.app.conftest import held
from tests.e2e.conftest import served

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import ImportanceResponse, LookRequest, Session
from headscope.app.server import worker as worker_module
from headscope.app.server.worker import DISCONNECTED, ContainerResponse, RequestWorker
from headscope.app.wire import unpack
from headscope.errors import InputError

TEXT = "the old lamp on the landing burned until morning"


def visitor(stays: bool = True) -> Request:
    """A request of somebody who waits for the answer, or of somebody who has closed the page."""

    async def receive() -> dict[str, str]:
        if stays:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": [], "query_string": b""}, receive)


def test_requests_to_one_model_run_one_at_a_time(session):
    worker, busy, seen = RequestWorker(ModelRegistry(session)), threading.Lock(), []

    def work(_: Session) -> int:
        assert busy.acquire(blocking=False), "two at once"
        time.sleep(0.01)
        busy.release()
        seen.append(threading.get_ident())
        return len(seen)

    async def everybody() -> list[object]:
        return await asyncio.gather(*(worker.run(visitor(), None, work) for _ in range(8)))

    assert asyncio.run(everybody()) == list(range(1, 9)), "and in the order in which they came"
    assert threading.get_ident() not in seen, "not on the event loop"


def test_two_models_do_not_wait_for_each_other(scope):
    registry, meet = ModelRegistry(), threading.Barrier(2, timeout=60)
    for name in ("one", "two"):
        registry.add(name, scope)
    worker = RequestWorker(registry)

    async def both() -> list[object]:
        return await asyncio.gather(*(worker.run(visitor(), name, lambda _: meet.wait()) for name in registry.names()))

    assert sorted(asyncio.run(both())) == [0, 1]  # type: ignore[type-var]


def test_a_small_model_gets_one_thread_and_a_large_one_all(session, monkeypatch):
    monkeypatch.setattr(worker_module, "CORES", 3)
    worker, before = RequestWorker(ModelRegistry(session)), torch.get_num_threads()

    def given() -> object:
        return asyncio.run(worker.run(visitor(), None, lambda _: torch.get_num_threads()))

    assert session.parameters == session.scope.model.model.num_parameters()
    monkeypatch.setattr(worker_module, "LARGE_MODEL", session.parameters)
    assert given() == 1
    monkeypatch.setattr(worker_module, "LARGE_MODEL", session.parameters - 1)
    assert given() == 3
    assert torch.get_num_threads() == before


def test_nothing_is_computed_for_a_disconnected_client(session):
    done: list[Session] = []
    answer = asyncio.run(RequestWorker(ModelRegistry(session)).run(visitor(stays=False), None, done.append))
    assert answer.status_code == DISCONNECTED  # type: ignore[union-attr]
    assert done == []


def test_a_disconnected_client_gets_no_container(session):
    answer = asyncio.run(
        RequestWorker(ModelRegistry(session)).run_packed(visitor(stays=False), None, lambda _: pytest.fail("asked"))
    )
    assert (answer.status_code, answer.body) == (DISCONNECTED, b"")
    assert not isinstance(answer, ContainerResponse)


def test_a_response_with_arrays_is_a_container(session):
    card, array = ImportanceResponse(look="x", read=3), np.arange(4, dtype=np.float32)
    answer = asyncio.run(
        RequestWorker(ModelRegistry(session)).run_packed(visitor(), None, lambda _: (card, {"importance": array}))
    )
    assert answer.media_type == "application/x-headscope"
    found = unpack(bytes(answer.body))
    assert found.values == {"look": "x", "read": 3}
    np.testing.assert_array_equal(found.arrays["importance"], array)


def test_an_error_releases_the_lock(session):
    worker = RequestWorker(ModelRegistry(session))

    def fails(_: Session) -> None:
        raise InputError("no candle")

    async def one_after_the_other() -> object:
        with pytest.raises(InputError, match="no candle"):
            await worker.run(visitor(), None, fails)
        return await worker.run(visitor(), None, lambda _: "lit")

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
def test_out_of_memory_drops_cached_looks_and_is_reported(session, error):
    session.look(LookRequest(text=TEXT))
    assert session.kept.names()

    def fills(_: Session) -> None:
        raise error

    with pytest.raises(InputError, match="there is not enough memory for this; try a shorter text, or a smaller model"):
        asyncio.run(RequestWorker(ModelRegistry(session)).run(visitor(), None, fills))
    assert not session.kept.names()


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ZeroDivisionError("x")])
def test_other_errors_are_not_taken_for_out_of_memory(session, error):
    session.look(LookRequest(text=TEXT))

    def fails(_: Session) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(RequestWorker(ModelRegistry(session)).run(visitor(), None, fails))
    assert caught.value is error
    assert session.kept.names(), "and nothing is thrown away for it"


def test_torch_s_allocator_error_is_reported_and_the_next_request_works(session, client, monkeypatch):
    """A request for more than a 64-bit process can address is refused on every machine."""
    look = unpack(client.post("/api/look", json={"text": TEXT}).content).values["look"]
    asked = {"look": look, "head": "0.0", "rows": [0, 5], "columns": [0, 5]}
    with monkeypatch.context() as patch:
        patch.setattr(session, "weights", lambda _: torch.empty(2**58))
        refused = client.post("/api/weights", json=asked)
    assert (refused.status_code, refused.json()["message"][:31]) == (422, "there is not enough memory for ")
    assert not session.kept.names(), "what was kept is let go"
    assert client.post("/api/weights", json=asked).status_code == 200
    assert client.get("/api/progress").json()["what"] == ""


def test_static_files_and_progress_are_served_while_the_model_runs(session):
    second = session.scope.model.model.model.layers[1]
    with served(session) as address, ThreadPoolExecutor(1) as pool, held(second) as (reached, go_on):
        reading = pool.submit(httpx.post, f"{address}api/look", json={"text": TEXT}, timeout=120)
        assert reached.wait(60)
        heard = httpx.get(f"{address}api/progress", timeout=120).json()
        assert httpx.get(address, timeout=120).status_code == 200
        assert httpx.get(f"{address}api/model", timeout=120).status_code == 200
        go_on.set()
        assert reading.result().status_code == 200
        assert heard["what"]
        assert heard["place"] == 0
        assert heard["total"] == 2
        assert httpx.get(f"{address}api/progress", timeout=120).json() == {
            "what": "",
            "done": 0,
            "total": 0,
            "place": 0,
        }


def test_two_clients_with_two_texts_get_their_own_weights(session, scope):
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
