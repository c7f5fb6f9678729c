"""Stream the results of long work: containers one after the other, each after its length in four bytes."""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import or_
from typing import Any, Literal

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from headscope.app.pages.schema import Emit, Problem
from headscope.app.server.errors import without_paths
from headscope.app.server.worker import DISCONNECTED, container_of
from headscope.app.wire import Arrays, pack
from headscope.errors import HeadscopeError

Work = Callable[[Emit], None]
Frames = asyncio.Queue[bytes | Exception | None]


class ProblemFrame(Problem):
    """An error after the first frame was sent."""

    event: Literal["problem"] = "problem"


class DisconnectedError(Exception):
    """The client has disconnected; raised inside the work, so that it stops."""


class FrameStream(StreamingResponse):
    """A response of frames."""

    media_type = "application/x-headscope-frames"


def stream_of(*models: Any) -> dict[str, Any]:
    """FastAPI's arguments for a route that streams these models."""
    return container_of(reduce(or_, models, ProblemFrame))


async def stream(request: Request, lock: asyncio.Lock, work: Work) -> Response:
    """The work's frames. An error before the first one is an ordinary error response; later it is the last frame."""
    loop, queue, disconnected = asyncio.get_running_loop(), Frames(), threading.Event()

    def emit(frame: Any, arrays: Arrays) -> None:
        if disconnected.is_set():
            raise DisconnectedError
        loop.call_soon_threadsafe(queue.put_nowait, _framed(frame, arrays))

    async def run() -> None:
        end: Exception | None = None
        try:
            async with lock:
                if not await request.is_disconnected():
                    await run_in_threadpool(work, emit)
        except DisconnectedError:
            pass
        except Exception as error:  # sent to the client below
            end = error
        await queue.put(end)

    task = asyncio.create_task(run())
    first = await queue.get()
    if isinstance(first, Exception):
        raise first
    if first is None:
        return Response(status_code=DISCONNECTED)
    return FrameStream(_frames(first, queue, disconnected, task))


async def _frames(
    first: bytes, queue: Frames, disconnected: threading.Event, task: asyncio.Task[None]
) -> AsyncIterator[bytes]:
    try:
        yield first
        while isinstance(frame := await queue.get(), bytes):
            yield frame
        if frame is not None:
            if not isinstance(frame, HeadscopeError):
                logging.getLogger("uvicorn.error").error("a stream failed", exc_info=frame)
            yield _framed(ProblemFrame(kind=type(frame).__name__, message=_message(frame)), {})
        await task
    finally:
        disconnected.set()


def _message(error: Exception) -> str:
    if isinstance(error, HeadscopeError):
        return without_paths(str(error))
    return "the program failed while it was working; try again"


def _framed(frame: Any, arrays: Arrays) -> bytes:
    body = pack(frame, arrays)
    return struct.pack("<I", len(body)) + body
