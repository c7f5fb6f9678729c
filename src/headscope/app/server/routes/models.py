"""Routes about the models: list them, open another, their published claims and the roles of their heads."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from headscope.app.model_registry import ModelList, OpenModelRequest, OpenModelResponse
from headscope.app.pages.microscope import ModelInfo
from headscope.app.pages.roles import PaperClaim, Roles, model_title
from headscope.app.server.clients import client_id
from headscope.app.server.worker import PROBLEM, RequestWorker


def routes(worker: RequestWorker) -> APIRouter:
    """The model registry, and the roles of a model's heads. Only testing them waits for the model."""
    router, registry = APIRouter(prefix="/api", tags=["models"]), worker.registry

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
