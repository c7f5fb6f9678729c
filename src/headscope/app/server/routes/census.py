"""Routes of the census page. A census is named by its number; folders are named when the server starts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.census import (
    Censuses,
    CensusHead,
    CensusList,
    CensusResponse,
    CensusSummary,
    ComparisonResponse,
    ScanRequest,
)
from headscope.app.server.clients import client_id
from headscope.app.server.worker import PROBLEM, ContainerResponse, Worker, container_of, threads_for
from headscope.app.wire import pack


def routes(worker: Worker, censuses: Censuses) -> APIRouter:
    """The list, one census, one of its heads, its files, two censuses compared, and the scan of a pasted text."""
    router = APIRouter(prefix="/api", tags=["census"])

    @router.get("/censuses", responses=PROBLEM)
    def summaries(request: Request) -> CensusList:
        return censuses.summaries(client_id(request))

    @router.post("/censuses", response_model=CensusSummary, responses=PROBLEM)
    async def scan(request: Request, asked: ScanRequest, model: str | None = None) -> Any:
        client = client_id(request)
        return await worker.run(
            request, model, lambda session: censuses.scan(session.scope, asked, client, threads_for(session)), long=True
        )

    @router.get("/censuses/{number}", **container_of(CensusResponse))
    def table(request: Request, number: int) -> Response:
        return ContainerResponse(pack(*censuses.get(number, client_id(request)).table))

    @router.get("/censuses/{number}/head", responses=PROBLEM)
    def head(request: Request, number: int, head: str, question: str) -> CensusHead:
        return censuses.get(number, client_id(request)).head(head, question)

    @router.get("/censuses/{number}/files", response_class=Response, responses=PROBLEM)
    def files(request: Request, number: int) -> Response:
        named = {"Content-Disposition": f'attachment; filename="headscope-census-{number}.zip"'}
        archive = censuses.get(number, client_id(request)).archive()
        return Response(archive, media_type="application/zip", headers=named)

    @router.get("/censuses/{number}/against/{other}", **container_of(ComparisonResponse))
    def compare(request: Request, number: int, other: int) -> Response:
        return ContainerResponse(pack(*censuses.compare(number, other, client_id(request))))

    return router
