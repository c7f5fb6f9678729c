"""Run requests one at a time per model in a worker thread; skip disconnected clients.

A small model's matrices gain nothing from a second thread, and torch's threads spin while they wait for each other: on
a machine that others use too, a class waited thirty times as long. So a small model gets one thread, a large one all of
them, and so does a look at a long text (pages/microscope.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from fastapi import Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.microscope import CORES, Session
from headscope.app.pages.schema import Problem
from headscope.app.wire import Arrays, pack
from headscope.errors import InputError
from headscope.scan.measure import threads

LARGE_MODEL = 2**26  # parameters; GPT-2 small is larger, the embedded model is not
DISCONNECTED = 499  # nginx's status for a client that has closed the connection
PROBLEM: dict[int | str, dict[str, Any]] = {422: {"model": Problem}}

Result = TypeVar("Result")


class ContainerResponse(Response):
    """A response that holds arrays."""

    media_type = "application/x-headscope"


def container_of(model: Any) -> dict[str, Any]:
    """FastAPI's arguments for a route whose response is a container with this model as its JSON."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": model}, **PROBLEM}
    return {"response_class": ContainerResponse, "response_model": None, "responses": responses}


class Worker:
    """Run work on a model in a thread, with one lock per model."""

    def __init__(self, registry: ModelRegistry) -> None:
        self.registry = registry
        self._locks: WeakKeyDictionary[Session, asyncio.Lock] = WeakKeyDictionary()

    async def run(self, request: Request, model: str | None, work: Callable[[Session], Result]) -> Result | Response:
        """The result of the work, or an empty response when the client has disconnected before its turn."""
        session = self.registry.session(model)
        async with self._locks.setdefault(session, asyncio.Lock()):
            if await request.is_disconnected():
                return Response(status_code=DISCONNECTED)
            return await run_in_threadpool(_run, work, session)

    async def run_packed(
        self, request: Request, model: str | None, work: Callable[[Session], tuple[Any, Arrays]]
    ) -> Response:
        """The same for work that returns arrays."""
        found = await self.run(request, model, lambda session: pack(*work(session)))
        return found if isinstance(found, Response) else ContainerResponse(found)


def threads_for(session: Session) -> int:
    """How many of torch's threads a request to this model gets."""
    return CORES if session.parameters > LARGE_MODEL else 1


def _run(work: Callable[[Session], Result], session: Session) -> Result:
    """Run the work; where memory runs out, drop the model's cached looks and raise an error the page can show."""
    try:
        with threads(threads_for(session)):
            return work(session)
    except (MemoryError, RuntimeError) as error:
        full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)
        if not full:
            raise
        session.forget()
        raise InputError("there is not enough memory for this; try a shorter text, or a smaller model") from error
