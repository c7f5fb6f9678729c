"""Routes for pictures and sound: look at one that a client sends, and what receives a head's attention."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.media.shown import ReceivedRequest, ReceivedResponse
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import LookRequest, LookResponse
from headscope.app.server.clients import client_id
from headscope.app.server.worker import Worker, container_of, kind_of


def routes(worker: Worker) -> APIRouter:
    """Both wait in the fair queue of the model; a picture or sound gives way to short texts."""
    router = APIRouter(prefix="/api", tags=["media"])

    @router.post("/media", **container_of(LookResponse))
    async def media(request: Request, asked: MediaRequest, model: str | None = None) -> Response:
        owner = client_id(request)
        return await worker.run_packed(request, model, lambda session: session.look_media(asked, owner), kind="long")

    @router.post("/received", **container_of(ReceivedResponse))
    async def received(request: Request, asked: ReceivedRequest, model: str | None = None) -> Response:
        session = worker.registry.session(model, client_id(request))
        kind = kind_of(session, LookRequest(look=asked.look))
        return await worker.run_packed(request, model, lambda session: session.received(asked), kind)

    return router
