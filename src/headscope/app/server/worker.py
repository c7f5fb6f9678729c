"""Run requests in the fair queue of their model, in a worker thread, as long as their client is there.

A small model's matrices gain nothing from a second thread, and torch's threads spin while they wait for each other: on
a machine that others use too, a class waited thirty times as long. So a small model gets one thread, a large one all of
them, set once for the thread that a request runs in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import RequestProgress, Session
from headscope.app.pages.schema import Problem
from headscope.app.server.clients import client_id
from headscope.app.server.fair_queue import FairQueue, Kind, ReaderLeftError, Turn
from headscope.app.wire import pack
from headscope.errors import InputError

CORES = torch.get_num_threads()
LARGE_MODEL = 2**26  # parameters; GPT-2 small is larger, the embedded model is not
DISCONNECTED = 499  # nginx's status for a client that has closed the connection
UNDER_WAY = 64  # requests of one client: a browser sends six at a time
PROBLEM: dict[int | str, dict[str, Any]] = {422: {"model": Problem}}

Result = TypeVar("Result")


class _ContainerResponse(Response):
    """A response that holds arrays."""

    media_type = "application/x-headscope"


def container_of(model: Any) -> dict[str, Any]:
    """FastAPI's arguments for a route whose response is a container with this model as its JSON."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": model}, **PROBLEM}
    return {"response_class": _ContainerResponse, "response_model": None, "responses": responses}


class RequestWorker:
    """Run work with one queue per model, and other long work with one queue per kind."""

    def __init__(self, registry: ModelRegistry) -> None:
        self.registry = registry
        self.training, self.comparing, self.opening, self.counting = (FairQueue() for _ in range(4))
        self.lessons, self.censuses, self.films, self.reports = (FairQueue() for _ in range(4))
        self._queues: WeakKeyDictionary[Session, FairQueue] = WeakKeyDictionary()
        self._under_way: Counter[str] = Counter()
        self._turns: dict[tuple[str, str], tuple[FairQueue, Turn]] = {}

    async def run(
        self,
        request: Request,
        model: str | None,
        work: Callable[[Session], Result],
        kind: Kind = "short",
    ) -> Result | Response:
        """Return the result of work on a model, or an empty response when the client has disconnected."""
        session = self.registry.session(model, client_id(request))
        queue = self._queues.get(session) or self._queues.setdefault(session, FairQueue())
        return await self.run_in(queue, request, lambda: _run(work, session), kind)

    async def run_in(
        self, queue: FairQueue, request: Request, work: Callable[[], Result], kind: Kind = "long"
    ) -> Result | Response:
        """Run work in a queue while the client is there. A response and its arrays are packed where they were made."""
        turn = Turn(client_id(request), kind)

        def packed() -> Any:
            found = work()
            return _ContainerResponse(pack(*found)) if isinstance(found, tuple) else found

        if await request.is_disconnected():
            return Response(status_code=DISCONNECTED)
        try:
            async with self.watching(queue, turn, request):
                return await queue.run(turn, packed)
        except ReaderLeftError:
            return Response(status_code=DISCONNECTED)

    def progress(self, request: Request, name: str) -> RequestProgress:
        """How far a client's request is: the one of this name, or its latest."""
        queue, turn = self._turns.get((client_id(request), name), (None, None))
        if queue is None or turn is None:
            return RequestProgress()
        what, done, total = turn.progress
        return RequestProgress(what=what, done=done, total=total, place=queue.place(turn))

    @asynccontextmanager
    async def watching(self, queue: FairQueue, turn: Turn, request: Request) -> AsyncIterator[None]:
        """Count the request to its client, tell its progress, and stop it when the client disconnects."""
        client, names = turn.client, {request.query_params.get("request", "")[:64], ""}
        if self._under_way[client] >= UNDER_WAY:
            message = f"{UNDER_WAY} requests of yours are under way; wait for their answers"
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, message)
        self._under_way[client] += 1
        for name in names:
            self._turns[client, name] = (queue, turn)
        watch = asyncio.create_task(_leave_on_disconnect(queue, turn, request))
        try:
            yield
        finally:
            watch.cancel()
            self._under_way[client] -= 1
            self._under_way += Counter()  # drop those with none
            for name in names:
                if self._turns.get((client, name), (None, None))[1] is turn:
                    del self._turns[client, name]


async def _leave_on_disconnect(queue: FairQueue, turn: Turn, request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    queue.leave(turn)


def threads_for(session: Session) -> int:
    """How many of torch's threads a request to this model gets."""
    return CORES if session.parameters > LARGE_MODEL else 1


def _run(work: Callable[[Session], Result], session: Session) -> Result:
    """Run the work; where memory runs out, drop the model's cached looks and raise an error the page can show."""
    try:
        torch.set_num_threads(threads_for(session))
        return work(session)
    except (MemoryError, RuntimeError) as error:
        full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)
        if not full:
            raise
        session.forget()
        raise InputError("there is not enough memory for this; try a shorter text, or a smaller model") from error
