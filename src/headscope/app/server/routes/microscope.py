"""Routes of the models and of the microscope: each request runs on the session of ``model``, or of the first model.

A request may have a name, ``?request=…``, by which its client asks for its progress.
"""

from __future__ import annotations

from typing import Any, get_args

from fastapi import APIRouter, Request

from headscope.app.model_registry import ModelList, OpenModelRequest, OpenModelResponse
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import LONG_REQUEST, LookRequest, LookResponse, ModelInfo, RequestProgress
from headscope.app.pages.roles import PaperClaim, Roles, model_title
from headscope.app.requests import REQUESTS
from headscope.app.server.clients import client_id
from headscope.app.server.fair_queue import Kind
from headscope.app.server.worker import PROBLEM, RequestWorker, container_of


def routes(worker: RequestWorker) -> APIRouter:
    """The model registry, the roles of a model's heads, and a route for every request to a session."""
    router, registry = APIRouter(prefix="/api", tags=["microscope"]), worker.registry
    for name in REQUESTS:
        _add(router, worker, name)

    @router.post("/media", **container_of(LookResponse))
    async def media(request: Request, asked: MediaRequest, model: str | None = None) -> Any:
        owner = client_id(request)
        return await worker.run(request, model, lambda session: session.look_media(asked, owner), kind="long")

    @router.get("/progress", responses=PROBLEM)
    async def progress(asked: Request, request: str = "") -> RequestProgress:
        return worker.progress(asked, request)

    @router.get("/models", responses=PROBLEM)
    async def models(request: Request) -> ModelList:
        sessions = registry.sessions(client_id(request))
        titles = [model_title(session.scope) for session in sessions.values()]
        return ModelList(names=list(sessions), titles=titles, opens=registry.opens)

    @router.post("/models", response_model=OpenModelResponse, responses=PROBLEM)
    async def open_model(request: Request, asked: OpenModelRequest) -> Any:
        def opened() -> OpenModelResponse:
            return OpenModelResponse(name=registry.open(asked.name))

        return await worker.run_in(worker.opening, request, opened, kind="whole")

    @router.get("/model", responses=PROBLEM)
    async def model_info(request: Request, model: str | None = None) -> ModelInfo:
        return registry.session(model, client_id(request)).model()

    @router.get("/featured", response_model=list[PaperClaim], responses=PROBLEM)
    async def published_claims(request: Request, model: str | None = None) -> Any:
        session = registry.session(model, client_id(request))
        return await worker.run_in(worker.reports, request, session.featured, kind="short")

    @router.get("/roles", response_model=Roles, responses=PROBLEM)
    async def roles(request: Request, model: str | None = None) -> Any:
        session = registry.session(model, client_id(request))
        return await worker.run_in(worker.reports, request, session.roles, kind="short")

    @router.post("/roles", response_model=Roles, responses=PROBLEM)
    async def test_heads(request: Request, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.test_heads(), kind="long")

    return router


def _add(router: APIRouter, worker: RequestWorker, name: str) -> None:
    asks = REQUESTS[name]
    pair = get_args(asks.types["return"])
    how = container_of(pair[0]) if pair else {"response_model": asks.types["return"], "responses": PROBLEM}

    async def endpoint(request: Request, asked: Any, model: str | None = None) -> Any:
        kind: Kind = "short" if asks.kind == "text" else asks.kind
        if asks.kind == "text":
            text = asked if isinstance(asked, LookRequest) else LookRequest(look=asked.look)
            size = worker.registry.session(model, client_id(request)).text_size(text)
            kind = "long" if size > LONG_REQUEST else "short"  # as far as can be known before it is split into tokens
        return await worker.run(request, model, lambda session: asks.respond(session, asked), kind)

    endpoint.__name__, endpoint.__annotations__["asked"] = name.replace("-", "_"), asks.types["asked"]
    router.post(f"/{name}", **how)(endpoint)
