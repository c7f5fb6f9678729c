"""Routes of the film, the model cards and the lessons. They need no model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages import cards
from headscope.app.pages.cards import CardRequest, CardResponse
from headscope.app.pages.course import lessons
from headscope.app.pages.course.classroom import Classroom
from headscope.app.pages.course.lessons import AnswerRequest, LessonList, LessonResponse
from headscope.app.pages.film import FilmResponse, Films
from headscope.app.server.clients import client_id
from headscope.app.server.language import language_of
from headscope.app.server.routes.classroom import check_open, is_teacher
from headscope.app.server.worker import PROBLEM, ContainerResponse, Worker, container_of
from headscope.app.wire import pack
from headscope.lab.teach.course.questions import Marked


def routes(worker: Worker, films: Films, held: Classroom | None) -> APIRouter:
    """The film, the cards and the lessons, of which a class sees the open ones; each request runs in a thread."""
    router = APIRouter(prefix="/api", tags=["reading"])
    router.get("/films", responses=PROBLEM)(films.film_list)

    @router.get("/film", **container_of(FilmResponse))
    def film(name: str | None = None) -> Response:
        return ContainerResponse(pack(*films.film(name)))

    router.get("/cards", responses=PROBLEM)(cards.card_list)

    @router.post("/card", response_model=CardResponse, responses=PROBLEM)
    async def read_card(request: Request, asked: CardRequest) -> Any:
        return await worker.run_in(worker.counting, request, lambda: cards.read_card(asked), whole=True)

    @router.get("/lessons", responses=PROBLEM)
    def contents(request: Request) -> LessonList:
        listed = lessons.contents(language_of(request))
        if held is None or is_teacher(request, held):
            return listed
        shown = [lesson for lesson in listed.lessons if held.is_open(lesson.number)]
        return LessonList(lessons=shown, last=listed.last)

    @router.get("/lessons/{number}", responses=PROBLEM)
    def lesson(request: Request, number: int) -> LessonResponse:
        check_open(request, held, number)
        return lessons.lesson(number, language_of(request))

    @router.post("/lessons/{number}/answer", responses=PROBLEM)
    def mark(request: Request, number: int, asked: AnswerRequest) -> Marked:
        check_open(request, held, number)
        marked = lessons.mark(number, asked, language_of(request))
        return marked if held is None else held.answered(client_id(request), number, asked.question, marked)

    return router
