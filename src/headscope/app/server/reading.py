"""Routes of the pages that are read: the film, model cards, lessons. They need no model."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from headscope.app import reading_cards, reading_lessons
from headscope.app import schema_reading as schema
from headscope.app.film_reading import Films
from headscope.app.server.desk import PROBLEM, ContainerResponse, carries, packed


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
        return reading_cards.card_lines()

    @router.post("/card", responses=PROBLEM)
    def card(asked: schema.CardRequest) -> schema.CardAnswer:
        return reading_cards.read_card(asked)

    @router.get("/lessons", responses=PROBLEM)
    def lessons() -> schema.LessonLines:
        return reading_lessons.lesson_lines()

    @router.get("/lessons/{number}", responses=PROBLEM)
    def lesson(number: int) -> schema.LessonCard:
        return reading_lessons.lesson_card(number)

    @router.post("/lessons/{number}/answer", responses=PROBLEM)
    def answer(number: int, asked: schema.AnswerRequest) -> schema.Marked:
        return reading_lessons.mark(number, asked)

    return router
