"""Routes that explain one text: why a head looks there, where a prediction comes from, what a path carries."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from headscope.app.pages.explain import (
    CutPathRequest,
    CutPathResponse,
    TraceRequest,
    TraceResponse,
    WhyRequest,
    WhyResponse,
)
from headscope.app.server.worker import PROBLEM, Worker


def routes(worker: Worker) -> APIRouter:
    """Split scores, trace predictions and cut paths; all of them give way to short requests."""
    router = APIRouter(prefix="/api", tags=["explain"])

    @router.post("/why", response_model=WhyResponse, responses=PROBLEM)
    async def why(request: Request, asked: WhyRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.why(asked), kind="long")

    @router.post("/trace", response_model=TraceResponse, responses=PROBLEM)
    async def trace(request: Request, asked: TraceRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.trace(asked), kind="long")

    @router.post("/cut-path", response_model=CutPathResponse, responses=PROBLEM)
    async def cut_path(request: Request, asked: CutPathRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.cut_path(asked), kind="long")

    return router
