"""Stream the results of long work: JSON, a line per result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import reduce
from operator import or_
from typing import Any, Literal

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from headscope.app.pages.schema import Emit, Problem
from headscope.app.server.clients import client_id
from headscope.app.server.errors import without_paths
from headscope.app.server.fair_queue import FairQueue, ReaderLeftError, Turn
from headscope.app.server.worker import DISCONNECTED, PROBLEM, RequestWorker
from headscope.errors import HeadscopeError

Work = Callable[[Emit], None]
Queue = asyncio.Queue[bytes | Exception | None]
"""Frames, and what ends them: an error, or None."""
FAILED = "the program failed while it was working; try again"
MOST_FRAMES = 4_096  # of a stream that wait to be sent; a client that takes none has gone


class ProblemFrame(Problem):
    """An error after the first frame was sent."""

    event: Literal["problem"] = "problem"


class _LineStream(StreamingResponse):
    """A response of lines."""

    media_type = "application/x-ndjson"


def stream_of(*models: Any) -> dict[str, Any]:
    """FastAPI's arguments for a route that streams these models."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": reduce(or_, models, ProblemFrame)}, **PROBLEM}
    return {"response_class": _LineStream, "response_model": None, "responses": responses}


async def stream(worker: RequestWorker, queue: FairQueue, request: Request, work: Work) -> Response:
    """The work's frames. An error before the first one is an ordinary error response; later it is the last frame."""
    loop, frames, turn = asyncio.get_running_loop(), Queue(), Turn(client_id(request), kind="long")

    def emit(frame: Any) -> None:
        if turn.left or frames.qsize() > MOST_FRAMES:
            raise ReaderLeftError
        loop.call_soon_threadsafe(frames.put_nowait, _line(frame))

    async def run() -> None:
        end: Exception | None = None
        try:
            async with worker.watching(queue, turn, request):
                await queue.run(turn, lambda: work(emit))
        except ReaderLeftError:
            pass
        except Exception as error:  # sent to the client below
            end = error
        await frames.put(end)

    task = asyncio.create_task(run())
    first = await frames.get()
    if isinstance(first, Exception):
        raise first
    if first is None:
        return Response(status_code=DISCONNECTED)
    as_it_is = {"Content-Encoding": "identity"}  # a compressor would hold frames back
    return _LineStream(_sent(first, frames, lambda: queue.leave(turn), task), headers=as_it_is)


async def _sent(
    first: bytes, frames: Queue, leave: Callable[[], None], task: asyncio.Task[None]
) -> AsyncIterator[bytes]:
    try:
        yield first
        while isinstance(frame := await frames.get(), bytes):
            yield frame
        if frame is not None:
            known = isinstance(frame, HeadscopeError)
            said = without_paths(str(frame)) if known else FAILED
            if not known:
                logging.getLogger("uvicorn.error").error("a stream failed", exc_info=frame)
            yield _line(ProblemFrame(kind=type(frame).__name__, message=said))
        await task
    finally:
        leave()


def _line(frame: Any) -> bytes:
    return to_json(frame) + b"\n"
