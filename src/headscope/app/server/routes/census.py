"""Routes of the census page. A census is named by its number: the server was started with the folders."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from headscope.app.pages.census import Censuses, CensusHead, CensusResponse, ComparisonResponse
from headscope.app.server.worker import PROBLEM, ContainerResponse, container_of
from headscope.app.wire import pack


def routes(censuses: Censuses) -> APIRouter:
    """The list, one census, one of its heads, and two censuses compared."""
    router = APIRouter(prefix="/api", tags=["census"])
    router.get("/censuses", responses=PROBLEM)(censuses.summaries)

    @router.get("/censuses/{number}", **container_of(CensusResponse))
    def table(number: int) -> Response:
        return ContainerResponse(pack(*censuses[number].table))

    @router.get("/censuses/{number}/head", responses=PROBLEM)
    def head(number: int, head: str, question: str) -> CensusHead:
        return censuses[number].head(head, question)

    @router.get("/censuses/{number}/against/{other}", **container_of(ComparisonResponse))
    def compare(number: int, other: int) -> Response:
        return ContainerResponse(pack(*censuses.compare(number, other)))

    return router
