"""Routes about the models: list them, open another, their published claims and the roles of their heads."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from headscope.app.model_registry import ModelList, OpenModelRequest, OpenModelResponse
from headscope.app.pages.microscope import ModelInfo
from headscope.app.pages.roles import PublishedClaims, Roles, model_title
from headscope.app.server.worker import PROBLEM, Worker


def routes(worker: Worker) -> APIRouter:
    """The model registry, and the roles of a model's heads. Only testing them waits for the model."""
    router, registry = APIRouter(prefix="/api", tags=["models"]), worker.registry

    @router.get("/models", responses=PROBLEM)
    async def models() -> ModelList:
        sessions = registry.sessions()
        titles = [model_title(session.scope) for session in sessions.values()]
        return ModelList(names=list(sessions), titles=titles, opens=registry.opens)

    @router.post("/models", responses=PROBLEM)
    def open_model(asked: OpenModelRequest) -> OpenModelResponse:
        return OpenModelResponse(name=registry.open(asked.name))

    @router.get("/model", responses=PROBLEM)
    async def model_info(model: str | None = None) -> ModelInfo:
        return registry.session(model).model()

    @router.get("/featured", responses=PROBLEM)
    def published_claims(model: str | None = None) -> PublishedClaims:
        return registry.session(model).featured()

    @router.get("/roles", responses=PROBLEM)
    def roles(model: str | None = None) -> Roles:
        return registry.session(model).roles()

    @router.post("/roles", response_model=Roles, responses=PROBLEM)
    async def test_heads(request: Request, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.test_heads())

    return router
