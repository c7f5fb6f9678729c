"""Work that takes a while tells of itself: containers one after the other, each behind its length in four bytes."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from headscope.app.pages.four_heads import Tell
from headscope.app.pages.schema_lab import ProblemFrame
from headscope.app.server.errors import without_paths
from headscope.app.server.worker import GONE, PROBLEM, ContainerResponse, packed
from headscope.app.wire import Arrays
from headscope.errors import HeadscopeError

Work = Callable[[Tell], None]


class LeftError(Exception):
    """Nobody listens any more; raised inside the work, so that it stops."""


class FrameStream(StreamingResponse):
    """Frames as they come."""

    media_type = "application/x-headscope-frames"


def streams(*cards: Any) -> dict[str, Any]:
    """What a route that streams these cards tells FastAPI."""
    told: Any = ProblemFrame
    for card in cards:
        told = told | card
    answers: dict[int | str, dict[str, Any]] = {200: {"model": told}, **PROBLEM}
    return {"response_class": ContainerResponse, "response_model": None, "responses": answers}


async def stream(request: Request, lock: asyncio.Lock, work: Work) -> Response:
    """The work's frames. An error before the first one is an ordinary refusal; later it is the last frame."""
    loop, queue, left = asyncio.get_running_loop(), asyncio.Queue[bytes | Exception | None](), threading.Event()

    def tell(card: BaseModel, arrays: Arrays) -> None:
        if left.is_set():
            raise LeftError
        loop.call_soon_threadsafe(queue.put_nowait, _framed(card, arrays))

    async def run() -> None:
        end: Exception | None = None
        try:
            async with lock:
                if not await request.is_disconnected():
                    await run_in_threadpool(work, tell)
        except LeftError:
            pass
        except Exception as error:  # told to the person below; anything but our own errors also reaches the log
            end = error
        await queue.put(end)

    task = asyncio.create_task(run())
    first = await queue.get()
    if isinstance(first, Exception):
        raise first
    if first is None:
        return Response(status_code=GONE)
    return FrameStream(_frames(first, queue, left, task))


async def _frames(
    first: bytes, queue: asyncio.Queue[bytes | Exception | None], left: threading.Event, task: asyncio.Task[None]
) -> AsyncIterator[bytes]:
    try:
        yield first
        while isinstance(frame := await queue.get(), bytes):
            yield frame
        if frame is not None:
            yield _framed(ProblemFrame(kind=type(frame).__name__, message=_words(frame)), {})
        await task
    finally:
        left.set()


def _words(error: Exception) -> str:
    if isinstance(error, HeadscopeError):
        return without_paths(str(error))
    return "the program failed while it was working; try again"


def _framed(card: BaseModel, arrays: Arrays) -> bytes:
    body = packed(card, arrays)
    return struct.pack("<I", len(body)) + body
