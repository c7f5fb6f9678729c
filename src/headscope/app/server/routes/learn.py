"""Routes of the film, the model cards and the lessons. They need no model."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from headscope.app.pages import cards, lessons
from headscope.app.pages.film import FilmResponse, Films
from headscope.app.server.worker import PROBLEM, ContainerResponse, container_of
from headscope.app.wire import pack


def routes(films: Films) -> APIRouter:
    """The film, the cards and the lessons; each request runs in a thread."""
    router = APIRouter(prefix="/api", tags=["reading"])
    router.get("/films", responses=PROBLEM)(films.film_list)

    @router.get("/film", **container_of(FilmResponse))
    def film(name: str | None = None) -> Response:
        return ContainerResponse(pack(*films.film(name)))

    router.get("/cards", responses=PROBLEM)(cards.card_list)
    router.post("/card", responses=PROBLEM)(cards.read_card)
    router.get("/lessons", responses=PROBLEM)(lessons.contents)
    router.get("/lessons/{number}", responses=PROBLEM)(lessons.lesson)
    router.post("/lessons/{number}/answer", responses=PROBLEM)(lessons.mark)
    return router
