"""The worker: one request per model at a time, off the event loop, within memory, skipping disconnected clients."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import torch
from fastapi import Request
from tests.app.conftest import held
from tests.e2e.conftest import served

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import ImportanceResponse, Session
from headscope.app.pages.tiles import PatternTiles
from headscope.app.server.worker import DISCONNECTED, RequestWorker
from headscope.app.wire import unpack

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


def test_nothing_is_computed_for_a_disconnected_client(session):
    done: list[Session] = []
    answer = asyncio.run(RequestWorker(ModelRegistry(session)).run(visitor(stays=False), None, done.append))
    assert answer.status_code == DISCONNECTED  # type: ignore[union-attr]
    assert done == []


def test_a_response_with_arrays_is_a_container(session):
    card, array = ImportanceResponse(look="x", read=3), np.arange(4, dtype=np.float32)
    answer = asyncio.run(
        RequestWorker(ModelRegistry(session)).run(visitor(), None, lambda _: (card, {"importance": array}))
    )
    assert answer.media_type == "application/x-headscope"
    found = unpack(bytes(answer.body))
    assert found.values == {"look": "x", "read": 3}
    np.testing.assert_array_equal(found.arrays["importance"], array)


def test_torch_s_allocator_error_is_reported_and_the_next_request_works(session, client, monkeypatch):
    """A request for more than a 64-bit process can address is refused on every machine."""
    look = unpack(client.post("/api/look", json={"text": TEXT}).content).values["look"]
    asked = {"look": look, "head": "0.0", "rows": [0, 5], "columns": [0, 5]}
    with monkeypatch.context() as patch:
        patch.setattr(PatternTiles, "tile", lambda *_: torch.empty(2**58))
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
