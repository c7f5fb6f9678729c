"""Routes of the film, the model cards and the lessons. They need no model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages import cards, lessons
from headscope.app.pages.cards import CardRequest, CardResponse
from headscope.app.pages.film import FilmResponse, Films
from headscope.app.server.worker import PROBLEM, ContainerResponse, Worker, container_of
from headscope.app.wire import pack


def routes(worker: Worker, films: Films) -> APIRouter:
    """The film, the cards and the lessons; each request runs in a thread."""
    router = APIRouter(prefix="/api", tags=["reading"])
    router.get("/films", responses=PROBLEM)(films.film_list)

    @router.get("/film", **container_of(FilmResponse))
    def film(name: str | None = None) -> Response:
        return ContainerResponse(pack(*films.film(name)))

    router.get("/cards", responses=PROBLEM)(cards.card_list)

    @router.post("/card", response_model=CardResponse, responses=PROBLEM)
    async def read_card(request: Request, asked: CardRequest) -> Any:
        return await worker.run_in(worker.counting, request, lambda: cards.read_card(asked), whole=True)

    router.get("/lessons", responses=PROBLEM)(lessons.contents)
    router.get("/lessons/{number}", responses=PROBLEM)(lessons.lesson)
    router.post("/lessons/{number}/answer", responses=PROBLEM)(lessons.mark)
    return router
