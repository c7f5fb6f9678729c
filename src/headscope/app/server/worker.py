"""How a question reaches a model: one at a time, off the event loop, and not for a person who has left.

A small model's matrices gain nothing from a second thread, and torch's threads spin while they wait for each other: on
a machine that others use too, a class waited thirty times as long. So a small model gets one, a large one all of them,
and so does the reading of a long text (session.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from headscope.app.model_registry import Shelf
from headscope.app.pages import schema
from headscope.app.pages.microscope import CORES, Session
from headscope.app.wire import Arrays, pack
from headscope.errors import InputError
from headscope.scan.measure import threads

LARGE_MODEL = 2**26  # parameters; GPT-2 small is larger, the embedded model is not
GONE = 499  # nginx's number for a client that has left: nobody reads the answer
PROBLEM: dict[int | str, dict[str, Any]] = {422: {"model": schema.Problem}}

Answer = TypeVar("Answer")


class ContainerResponse(Response):
    """An answer that carries arrays."""

    media_type = "application/x-headscope"


def carries(card: type[BaseModel]) -> dict[str, Any]:
    """What a route that answers with this card and arrays tells FastAPI."""
    answers: dict[int | str, dict[str, Any]] = {200: {"model": card}, **PROBLEM}
    return {"response_class": ContainerResponse, "response_model": None, "responses": answers}


class Desks:
    """One lock for each model on the shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._locks: WeakKeyDictionary[Session, asyncio.Lock] = WeakKeyDictionary()

    async def answer(self, request: Request, model: str | None, work: Callable[[Session], Answer]) -> Answer | Response:
        """What the work says of this model, or an empty answer when nobody waits for it."""
        session = self.shelf.session(model)
        async with self._locks.setdefault(session, asyncio.Lock()):
            if await request.is_disconnected():
                return Response(status_code=GONE)
            return await run_in_threadpool(_ask, work, session)

    async def packed(
        self, request: Request, model: str | None, work: Callable[[Session], tuple[BaseModel, Arrays]]
    ) -> Response:
        """The same for an answer that carries arrays."""
        found = await self.answer(request, model, lambda session: packed(*work(session)))
        return found if isinstance(found, Response) else ContainerResponse(found)


def threads_for(session: Session) -> int:
    """How many of torch's threads a question to this model gets."""
    return CORES if session.parameters > LARGE_MODEL else 1


def _ask(work: Callable[[Session], Answer], session: Session) -> Answer:
    """The work; where memory runs out, what was kept for this model is let go, and the person is told."""
    try:
        with threads(threads_for(session)):
            return work(session)
    except (MemoryError, RuntimeError) as error:
        full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error)
        if not full:
            raise
        session.forget()
        raise InputError("there is not enough memory for this; try a shorter text, or a smaller model") from error


def packed(card: BaseModel, arrays: Arrays) -> bytes:
    """A card and its arrays as they travel."""
    return pack(card.model_dump(mode="json"), arrays)
