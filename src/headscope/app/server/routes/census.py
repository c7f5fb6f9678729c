"""Routes of the census page. A census is named by its number; folders are named when the server starts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.census import (
    Censuses,
    CensusHead,
    CensusResponse,
    CensusSummary,
    ComparisonResponse,
    ScanRequest,
)
from headscope.app.server.clients import client_id
from headscope.app.server.worker import PROBLEM, RequestWorker, container_of, threads_for


def routes(worker: RequestWorker, censuses: Censuses) -> APIRouter:
    """The list, one census, one of its heads, its files, two censuses compared, and the scan of a pasted text."""
    router = APIRouter(prefix="/api", tags=["census"])

    @router.get("/censuses", response_model=list[CensusSummary], responses=PROBLEM)
    async def summaries(request: Request) -> Any:
        client = client_id(request)
        return await worker.run_in(worker.censuses, request, lambda: censuses.summaries(client), kind="short")

    @router.post("/censuses", response_model=CensusSummary, responses=PROBLEM)
    async def scan(request: Request, asked: ScanRequest, model: str | None = None) -> Any:
        client = client_id(request)
        return await worker.run(
            request,
            model,
            lambda session: censuses.scan(session.scope, asked, client, threads_for(session)),
            kind="long",
        )

    @router.get("/censuses/{number}", **container_of(CensusResponse))
    async def table(request: Request, number: int) -> Any:
        client = client_id(request)
        return await worker.run_in(worker.censuses, request, lambda: censuses.get(number, client).table, kind="short")

    @router.get("/censuses/{number}/head", response_model=CensusHead, responses=PROBLEM)
    async def head(request: Request, number: int, head: str, question: str) -> Any:
        client = client_id(request)
        return await worker.run_in(
            worker.censuses, request, lambda: censuses.get(number, client).head(head, question), kind="short"
        )

    @router.get("/censuses/{number}/files", response_class=Response, responses=PROBLEM)
    async def files(request: Request, number: int) -> Response:
        named, client = f'attachment; filename="headscope-census-{number}.zip"', client_id(request)

        def archive() -> Response:
            data = censuses.get(number, client).archive()
            return Response(data, media_type="application/zip", headers={"Content-Disposition": named})

        return await worker.run_in(worker.censuses, request, archive)

    @router.get("/censuses/{number}/against/{other}", **container_of(ComparisonResponse))
    async def compare(request: Request, number: int, other: int) -> Any:
        client = client_id(request)
        return await worker.run_in(worker.censuses, request, lambda: censuses.compare(number, other, client))

    return router
