"""Routes of the microscope: each request runs on the session of ``model``, or of the first model.

A request may have a name, ``?request=…``, by which its client asks for its progress.
"""

from __future__ import annotations

from typing import Any, get_args

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import LookRequest, LookResponse, RequestProgress
from headscope.app.requests import REQUESTS
from headscope.app.server.clients import client_id
from headscope.app.server.fair_queue import Kind
from headscope.app.server.worker import PROBLEM, RequestWorker, container_of, kind_of


def routes(worker: RequestWorker) -> APIRouter:
    """A route for every request to a session, its progress, and a picture or sound that a client sends."""
    router = APIRouter(prefix="/api", tags=["microscope"])
    for name in REQUESTS:
        _add(router, worker, name)

    @router.post("/media", **container_of(LookResponse))
    async def media(request: Request, asked: MediaRequest, model: str | None = None) -> Response:
        owner = client_id(request)
        return await worker.run_packed(request, model, lambda session: session.look_media(asked, owner), kind="long")

    @router.get("/progress", responses=PROBLEM)
    async def progress(asked: Request, request: str = "") -> RequestProgress:
        return worker.progress(asked, request)

    return router


def _add(router: APIRouter, worker: RequestWorker, name: str) -> None:
    asks = REQUESTS[name]
    pair = get_args(asks.types["return"])
    run = worker.run_packed if pair else worker.run
    how = container_of(pair[0]) if pair else {"response_model": asks.types["return"], "responses": PROBLEM}

    async def endpoint(request: Request, asked: Any, model: str | None = None) -> Any:
        return await run(request, model, lambda session: asks.respond(session, asked), kind(request, asked, model))

    def kind(request: Request, asked: Any, model: str | None) -> Kind:
        if asks.kind != "text":
            return asks.kind
        text = asked if isinstance(asked, LookRequest) else LookRequest(look=asked.look)
        return kind_of(worker.registry.session(model, client_id(request)), text)

    endpoint.__name__, endpoint.__annotations__["asked"] = name.replace("-", "_"), asks.types["asked"]
    router.post(f"/{name}", **how)(endpoint)
