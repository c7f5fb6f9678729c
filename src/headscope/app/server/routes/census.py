"""Routes of the census page. A census is a number: the folders were named when the server was started."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from headscope.app.pages import schema_census as schema
from headscope.app.pages.census import Censuses
from headscope.app.server.worker import PROBLEM, ContainerResponse, carries, packed


def routes(censuses: Censuses) -> APIRouter:
    """The list, one census, one of its heads, and two of them compared."""
    router = APIRouter(prefix="/api", tags=["census"])

    @router.get("/censuses", responses=PROBLEM)
    def lines() -> schema.CensusLines:
        return censuses.lines()

    @router.get("/censuses/{number}", **carries(schema.CensusCard))
    def table(number: int) -> Response:
        return ContainerResponse(packed(*censuses.table(number)))

    @router.get("/censuses/{number}/head", responses=PROBLEM)
    def head(number: int, head: str, question: str) -> schema.CensusHead:
        return censuses.head(number, head, question)

    @router.get("/censuses/{number}/against/{other}", **carries(schema.ComparisonCard))
    def compare(number: int, other: int) -> Response:
        return ContainerResponse(packed(*censuses.compare(number, other)))

    return router
