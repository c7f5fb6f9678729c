"""Routes of the film, the real heads, the model cards and the lessons. They need no model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse

from headscope.app.pages import REAL_HEADS, cards
from headscope.app.pages.cards import CardRequest, CardResponse
from headscope.app.pages.course import lessons
from headscope.app.pages.course.classroom import Classroom
from headscope.app.pages.course.lessons import AnswerRequest, LessonList, LessonResponse
from headscope.app.pages.film import FilmResponse, Films
from headscope.app.server.clients import browser_id
from headscope.app.server.routes.classroom import check_open, is_teacher
from headscope.app.server.worker import PROBLEM, RequestWorker, container_of
from headscope.lab.teach.course.questions import Marked


def routes(worker: RequestWorker, films: Films, held: Classroom | None) -> APIRouter:
    """Serve the film, the cards and the lessons (in a class, the open ones). A lesson runs once for all waiting."""
    router = APIRouter(prefix="/api", tags=["reading"])
    router.get("/films", responses=PROBLEM)(films.names)

    @router.get("/film", **container_of(FilmResponse))
    async def film(request: Request, name: str | None = None) -> Any:
        return await worker.run_in(worker.films, request, lambda: films.film(name), kind="short")

    router.get("/cards", responses=PROBLEM)(cards.card_list)
    router.get("/real-heads")(lambda: FileResponse(REAL_HEADS))

    @router.post("/card", response_model=CardResponse, responses=PROBLEM)
    async def read_card(request: Request, asked: CardRequest) -> Any:
        return await worker.run_in(worker.counting, request, lambda: cards.read_card(asked), kind="whole")

    @router.get("/lessons", responses=PROBLEM)
    def contents(request: Request) -> LessonList:
        listed = lessons.contents()
        if held is None or is_teacher(request, held):
            return listed
        shown = [lesson for lesson in listed.lessons if held.is_open(lesson.number)]
        return LessonList(lessons=shown, last=listed.last)

    @router.get("/lessons/{number}", response_model=LessonResponse, responses=PROBLEM)
    async def lesson(request: Request, number: int) -> Any:
        check_open(request, held, number)
        return await worker.run_in(worker.lessons, request, lambda: lessons.lesson(number), kind="whole")

    @router.post("/lessons/{number}/answer", response_model=Marked, responses=PROBLEM)
    async def mark(request: Request, number: int, asked: AnswerRequest) -> Any:
        check_open(request, held, number)
        student = browser_id(request)

        def marked() -> Marked:
            found = lessons.mark(number, asked)
            return found if held is None else held.answered(student, number, asked.question, found)

        return await worker.run_in(worker.lessons, request, marked, kind="whole")

    return router
