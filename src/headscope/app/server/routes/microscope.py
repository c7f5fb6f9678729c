"""The microscope's routes: each carries one question to a Session. `model` names one of the page's models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages import schema
from headscope.app.server.worker import PROBLEM, Desks, carries


def routes(desks: Desks) -> APIRouter:
    """Look at a text, and change heads while it is read."""
    router = APIRouter(prefix="/api", tags=["microscope"])

    @router.post("/look", **carries(schema.LookCard))
    async def look(request: Request, asked: schema.LookRequest, model: str | None = None) -> Response:
        return await desks.packed(request, model, lambda session: session.look(asked))

    @router.post("/weights", **carries(schema.WeightsCard))
    async def weights(request: Request, asked: schema.WeightsRequest, model: str | None = None) -> Response:
        return await desks.packed(request, model, lambda session: session.weights(asked))

    @router.post("/mix", **carries(schema.MixCard))
    async def mix(request: Request, asked: schema.MixRequest, model: str | None = None) -> Response:
        return await desks.packed(request, model, lambda session: session.mix(asked))

    @router.post("/token", response_model=schema.FoundToken, responses=PROBLEM)
    async def token(request: Request, asked: schema.TokenRequest, model: str | None = None) -> Any:
        return await desks.answer(request, model, lambda session: session.token(asked))

    @router.post("/predict", response_model=schema.Prediction, responses=PROBLEM)
    async def predict(request: Request, asked: schema.PredictRequest, model: str | None = None) -> Any:
        return await desks.answer(request, model, lambda session: session.predict(asked))

    @router.post("/importance", **carries(schema.ImportanceCard))
    async def importance(request: Request, asked: schema.ImportanceRequest, model: str | None = None) -> Response:
        return await desks.packed(request, model, lambda session: session.importance(asked))

    @router.get("/progress", responses=PROBLEM)
    async def progress(model: str | None = None) -> schema.Progress:
        return desks.shelf.session(model).progress

    return router
