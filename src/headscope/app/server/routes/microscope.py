"""Routes of the microscope: each request runs on the session of ``model``, or of the first model.

A request may have a name, ``?request=…``, by which its client asks for its progress.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.attribution import AttributionRequest, AttributionResponse, TokenRequest, TokenResponse
from headscope.app.pages.explain import (
    CutPathRequest,
    CutPathResponse,
    TraceRequest,
    TraceResponse,
    WhyRequest,
    WhyResponse,
)
from headscope.app.pages.media.shown import ReceivedRequest, ReceivedResponse
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import (
    ImportanceRequest,
    ImportanceResponse,
    LookRequest,
    LookResponse,
    RequestProgress,
)
from headscope.app.pages.patching import LensRequest, LensResponse, PatchingRequest, PatchingResponse
from headscope.app.pages.predictions import PredictRequest, PredictResponse
from headscope.app.pages.tiles import WeightsRequest, WeightsResponse
from headscope.app.server.clients import client_id
from headscope.app.server.fair_queue import Kind
from headscope.app.server.worker import PROBLEM, RequestWorker, container_of, kind_of


def routes(worker: RequestWorker) -> APIRouter:
    """Look at a text, attribute its logits to heads, and predict with heads ablated."""
    router = APIRouter(prefix="/api", tags=["microscope"])

    def kind(request: Request, model: str | None, asked: LookRequest) -> Kind:
        """The kind of work on a text."""
        return kind_of(worker.registry.session(model, client_id(request)), asked)

    def about(request: Request, model: str | None, look: str) -> Kind:
        """The same for the text of a look."""
        return kind(request, model, LookRequest(look=look))

    @router.post("/look", **container_of(LookResponse))
    async def look(request: Request, asked: LookRequest, model: str | None = None) -> Response:
        return await worker.run_packed(request, model, lambda session: session.look(asked), kind(request, model, asked))

    @router.post("/weights", **container_of(WeightsResponse))
    async def weights(request: Request, asked: WeightsRequest, model: str | None = None) -> Response:
        return await worker.run_packed(
            request, model, lambda session: session.weights(asked), about(request, model, asked.look)
        )

    @router.post("/attribution", **container_of(AttributionResponse))
    async def attribution(request: Request, asked: AttributionRequest, model: str | None = None) -> Response:
        return await worker.run_packed(
            request, model, lambda session: session.attribution(asked), about(request, model, asked.look)
        )

    @router.post("/token", response_model=TokenResponse, responses=PROBLEM)
    async def token(request: Request, asked: TokenRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.token(asked))

    @router.post("/predict", response_model=PredictResponse, responses=PROBLEM)
    async def predict(request: Request, asked: PredictRequest, model: str | None = None) -> Any:
        return await worker.run(
            request, model, lambda session: session.predict(asked), about(request, model, asked.look)
        )

    @router.post("/importance", **container_of(ImportanceResponse))
    async def importance(request: Request, asked: ImportanceRequest, model: str | None = None) -> Response:
        return await worker.run_packed(
            request, model, lambda session: session.importance(asked), about(request, model, asked.look)
        )

    @router.get("/progress", responses=PROBLEM)
    async def progress(asked: Request, request: str = "") -> RequestProgress:
        return worker.progress(asked, request)

    _add_explanations(router, worker)
    _add_media(router, worker)
    return router


def _add_explanations(router: APIRouter, worker: RequestWorker) -> None:
    """Split scores, trace predictions, cut paths and patch; all of them give way to short requests."""

    @router.post("/why", response_model=WhyResponse, responses=PROBLEM)
    async def why(request: Request, asked: WhyRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.why(asked), kind="long")

    @router.post("/trace", response_model=TraceResponse, responses=PROBLEM)
    async def trace(request: Request, asked: TraceRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.trace(asked), kind="long")

    @router.post("/lens", response_model=LensResponse, responses=PROBLEM)
    async def lens(request: Request, asked: LensRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.lens(asked), kind="long")

    @router.post("/patching", response_model=PatchingResponse, responses=PROBLEM)
    async def patching(request: Request, asked: PatchingRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.patching(asked), kind="long")

    @router.post("/cut-path", response_model=CutPathResponse, responses=PROBLEM)
    async def cut_path(request: Request, asked: CutPathRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.cut_path(asked), kind="long")


def _add_media(router: APIRouter, worker: RequestWorker) -> None:
    """Look at a picture or sound that a client sends, and ask what receives a head's attention."""

    @router.post("/media", **container_of(LookResponse))
    async def media(request: Request, asked: MediaRequest, model: str | None = None) -> Response:
        owner = client_id(request)
        return await worker.run_packed(request, model, lambda session: session.look_media(asked, owner), kind="long")

    @router.post("/received", **container_of(ReceivedResponse))
    async def received(request: Request, asked: ReceivedRequest, model: str | None = None) -> Response:
        session = worker.registry.session(model, client_id(request))
        kind = kind_of(session, LookRequest(look=asked.look))
        return await worker.run_packed(request, model, lambda session: session.received(asked), kind)
