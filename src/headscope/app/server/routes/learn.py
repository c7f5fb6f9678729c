"""Routes of the pages that are read: the film, model cards, lessons. They need no model."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from headscope.app.pages import cards as cards_page
from headscope.app.pages import lessons as lessons_page
from headscope.app.pages import schema_reading as schema
from headscope.app.pages.film import Films
from headscope.app.server.worker import PROBLEM, ContainerResponse, carries, packed


def routes(films: Films) -> APIRouter:
    """The film, the cards and the lessons. Each is plain computation, so each runs in a thread of its own."""
    router = APIRouter(prefix="/api", tags=["reading"])

    @router.get("/films", responses=PROBLEM)
    def film_names() -> schema.FilmNames:
        return schema.FilmNames(names=films.names())

    @router.get("/film", **carries(schema.FilmCard))
    def film(name: str | None = None) -> Response:
        return ContainerResponse(packed(*films.film(name)))

    @router.get("/cards", responses=PROBLEM)
    def cards() -> schema.CardLines:
        return cards_page.card_lines()

    @router.post("/card", responses=PROBLEM)
    def card(asked: schema.CardRequest) -> schema.CardAnswer:
        return cards_page.read_card(asked)

    @router.get("/lessons", responses=PROBLEM)
    def lessons() -> schema.LessonLines:
        return lessons_page.lesson_lines()

    @router.get("/lessons/{number}", responses=PROBLEM)
    def lesson(number: int) -> schema.LessonCard:
        return lessons_page.lesson_card(number)

    @router.post("/lessons/{number}/answer", responses=PROBLEM)
    def answer(number: int, asked: schema.AnswerRequest) -> schema.Marked:
        return lessons_page.mark(number, asked)

    return router
