"""The page's server: a few routes over one Session. The only file that imports fastapi and uvicorn."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headscope import __version__
from headscope.app import schema
from headscope.app.session import Arrays, Session
from headscope.app.wire import pack
from headscope.errors import HeadscopeError, InputError

STATIC = Path(__file__).parent / "static"
HOST = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'",
}
GONE = 499  # nginx's number for a client that has left: nobody reads the answer

Answer = TypeVar("Answer")


class ContainerResponse(Response):
    """An answer that carries arrays."""

    media_type = "application/x-headscope"


class Desk:
    """One model, one question at a time, off the event loop; a person who typed on is not served."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = asyncio.Lock()

    async def answer(self, request: Request, work: Callable[[], Answer]) -> Answer | None:
        async with self._lock:
            if await request.is_disconnected():
                return None
            return await run_in_threadpool(work)

    async def packed(self, request: Request, work: Callable[[], tuple[BaseModel, Arrays]]) -> Response:
        data = await self.answer(request, lambda: _pack(*work()))
        return Response(status_code=GONE) if data is None else ContainerResponse(data)


class Headers:
    """Says on every answer what the browser may do with it. Plain ASGI, so that a lost connection stays visible."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _pack(card: BaseModel, arrays: Arrays) -> bytes:
    return pack(card.model_dump(mode="json"), arrays)


def application(session: Session) -> FastAPI:
    """The web application that shows this session's model."""
    app = FastAPI(title="headscope", version=__version__, docs_url=None, redoc_url=None)
    desk = Desk(session)
    problem: dict[int | str, dict[str, Any]] = {422: {"model": schema.Problem}}
    app.add_exception_handler(HeadscopeError, _say)
    app.add_exception_handler(RequestValidationError, _say_validation)

    @app.get("/api/model", responses=problem)
    async def model(request: Request) -> schema.ModelCard:
        return session.model()

    def container(path: str, card: type[BaseModel]) -> Callable[[Any], Any]:
        shown: dict[int | str, dict[str, Any]] = {200: {"model": card}, **problem}
        return app.post(path, response_class=ContainerResponse, response_model=None, responses=shown)

    @container("/api/look", schema.LookCard)
    async def look(request: Request, asked: schema.LookRequest) -> Response:
        return await desk.packed(request, lambda: session.look(asked))

    @container("/api/weights", schema.WeightsCard)
    async def weights(request: Request, asked: schema.WeightsRequest) -> Response:
        return await desk.packed(request, lambda: session.weights(asked))

    @container("/api/mix", schema.MixCard)
    async def mix(request: Request, asked: schema.MixRequest) -> Response:
        return await desk.packed(request, lambda: session.mix(asked))

    @app.post("/api/predict", response_model=schema.Prediction, responses=problem)
    async def predict(request: Request, asked: schema.PredictRequest) -> Any:
        found = await desk.answer(request, lambda: session.predict(asked))
        return Response(status_code=GONE) if found is None else found

    @app.get("/api/roles", responses=problem)
    async def roles(request: Request) -> schema.Roles:
        return await run_in_threadpool(session.roles)

    @app.post("/api/roles", response_model=schema.Roles, responses=problem)
    async def test_heads(request: Request) -> Any:
        found = await desk.answer(request, session.test_heads)
        return Response(status_code=GONE) if found is None else found

    # a page elsewhere must not reach this server by a name of its own that points here
    app.add_middleware(Headers)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost", "testserver"])
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def _say(request: Request, error: Exception) -> Response:
    return JSONResponse({"kind": type(error).__name__, "message": str(error)}, status_code=422)


def _say_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return JSONResponse({"kind": "InputError", "message": f"{where}: {first['msg']}"}, status_code=422)


def free_port(wanted: int | None = None) -> int:
    """The wanted port, or any free one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted or 0))
        except OSError as error:
            raise InputError(
                f"port {wanted} cannot be used ({error.strerror}); leave --port out for a free one"
            ) from error
        return int(probe.getsockname()[1])


def serve(session: Session, *, port: int | None = None, open_browser: bool = True) -> None:
    """Show the page until interrupted."""
    port = free_port(port)
    address = f"http://{HOST}:{port}/"
    sys.stderr.write(f"The microscope is at {address} (Ctrl+C stops it).\n")
    if open_browser:
        threading.Timer(0.8, webbrowser.open, [address]).start()
    uvicorn.run(application(session), host=HOST, port=port, log_level="warning")


def openapi() -> str:
    """The API's description, from which the front end's types are generated."""
    return json.dumps(application(Session.__new__(Session)).openapi(), indent=1)
