"""Routes about the models themselves: which there are, opening another, and what their heads are called."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from headscope.app.pages import schema
from headscope.app.server.worker import PROBLEM, Desks


def routes(desks: Desks) -> APIRouter:
    """The shelf, and the roles of a model's heads. Only testing them waits for the model."""
    router, shelf = APIRouter(prefix="/api", tags=["models"]), desks.shelf

    @router.get("/models", responses=PROBLEM)
    async def models() -> schema.Models:
        kept = shelf.sessions()
        return schema.Models(names=list(kept), titles=[each.title for each in kept.values()], opens=shelf.opens)

    @router.post("/models", responses=PROBLEM)
    def open_model(asked: schema.OpenRequest) -> schema.OpenedModel:
        return schema.OpenedModel(name=shelf.open(asked.name))

    @router.get("/model", responses=PROBLEM)
    async def model_card(model: str | None = None) -> schema.ModelCard:
        return shelf.session(model).model()

    @router.get("/featured", responses=PROBLEM)
    def featured(model: str | None = None) -> schema.Featured:
        return shelf.session(model).featured()

    @router.get("/roles", responses=PROBLEM)
    def roles(model: str | None = None) -> schema.Roles:
        return shelf.session(model).roles()

    @router.post("/roles", response_model=schema.Roles, responses=PROBLEM)
    async def test_heads(request: Request, model: str | None = None) -> Any:
        return await desks.answer(request, model, lambda session: session.test_heads())

    return router
