"""Routes of the class and of the worksheet. The teacher's pages need the teacher's cookie."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headscope.app.pages.course.classroom import (
    ClassNews,
    Classroom,
    HideAnswers,
    LeaveClass,
    OpenLesson,
    ShowPage,
    TeacherView,
)
from headscope.app.server.addresses import join_addresses
from headscope.app.server.clients import browser_id
from headscope.app.server.join import PATH
from headscope.app.server.worker import PROBLEM, RequestWorker
from headscope.lab.teach import lessons
from headscope.lab.teach.worksheet import ShownWorksheet, worksheet

TEACHER_PATH = "/class/teacher"
NO_CLASS = "no class is held here; start one with headscope serve --classroom"
NOT_THE_TEACHER = "this is the teacher's: open the address that the terminal printed for the teacher"


def routes(worker: RequestWorker, classroom: Classroom | None) -> APIRouter:
    """Serve the class, if there is one, and worksheets; only the teacher gets solved ones."""
    router = APIRouter(tags=["class"], responses=PROBLEM)
    _add_students(router, worker, classroom)
    _add_teachers(router, worker, classroom)
    return router


def _add_students(router: APIRouter, worker: RequestWorker, classroom: Classroom | None) -> None:
    """What students may ask for, and the address that makes a browser the teacher's."""

    @router.get("/api/worksheet", response_model=ShownWorksheet)
    async def sheet(request: Request, seed: int = 0, solved: bool = False) -> Any:
        if solved:
            _teachers(request, classroom)
        return await worker.run_in(worker.lessons, request, lambda: worksheet(seed).shown(solved=solved), kind="whole")

    @router.get(TEACHER_PATH)
    def teacher_arrives(key: str, request: Request) -> RedirectResponse:
        room = _held(classroom)
        if not room.is_teacher(key):
            raise HTTPException(HTTPStatus.FORBIDDEN, NOT_THE_TEACHER)
        response = RedirectResponse("/#class", HTTPStatus.SEE_OTHER)
        response.set_cookie(room.teacher_cookie, key, httponly=True, samesite="strict")
        return response

    @router.get("/api/class")
    def news(request: Request, lesson: int = -1) -> ClassNews | None:
        """What is new for a student in this lesson; null for the teacher, after leaving, and if no class was joined."""
        student = browser_id(request)
        if classroom is None or student is None or is_teacher(request, classroom):
            return None
        return classroom.news(student, lesson)

    @router.post("/api/class/leave")
    def leave(asked: LeaveClass, request: Request) -> None:
        if (student := browser_id(request)) is not None:
            _held(classroom).leave(student, asked)

    @router.post("/api/class/show")
    def show(page: ShowPage) -> None:
        _held(classroom).show(page)


def _add_teachers(router: APIRouter, worker: RequestWorker, classroom: Classroom | None) -> None:
    """What only the teacher may do."""

    @router.get("/api/class/teacher", response_model=TeacherView)
    async def view(request: Request, lesson: int = -1, few: bool = False) -> Any:
        room = _teachers(request, classroom)
        port = int(request.scope["server"][1])
        known = join_addresses(room.hosts(), port, request.headers.get("host", ""))
        join = [f"{address}{PATH}" for address in known]

        def viewed() -> TeacherView:
            listed = any(number == lesson for number, *_ in lessons.contents())
            return room.view(lessons.lesson(lesson) if listed else None, join, few=few)

        return await worker.run_in(worker.lessons, request, viewed, kind="whole")

    @router.post("/api/class/open")
    def open_lesson(asked: OpenLesson, request: Request) -> None:
        _teachers(request, classroom).open(asked)

    @router.post("/api/class/answers")
    def answers(asked: HideAnswers, request: Request) -> None:
        _teachers(request, classroom).hide_answers(asked)

    @router.post("/api/class/ask")
    def ask(request: Request) -> None:
        _teachers(request, classroom).ask_to_show()

    @router.post("/api/class/stop-showing")
    def stop_showing(request: Request) -> None:
        _teachers(request, classroom).stop_showing()

    @router.post("/api/class/end")
    def end(request: Request) -> None:
        _teachers(request, classroom).end()

    @router.get("/api/class/progress.csv")
    def progress(request: Request) -> PlainTextResponse:
        return PlainTextResponse(_teachers(request, classroom).progress(), media_type="text/csv")


def is_teacher(request: Request, classroom: Classroom) -> bool:
    """Whether a request carries the teacher's cookie."""
    return classroom.is_teacher(request.cookies.get(classroom.teacher_cookie, ""))


def check_open(request: Request, classroom: Classroom | None, lesson: int) -> None:
    """Refuse a lesson to students that their teacher has not opened."""
    if classroom is not None and not is_teacher(request, classroom) and not classroom.is_open(lesson):
        raise HTTPException(HTTPStatus.FORBIDDEN, f"your teacher has not opened lesson {lesson} yet")


def _held(classroom: Classroom | None) -> Classroom:
    if classroom is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, NO_CLASS)
    return classroom


def _teachers(request: Request, classroom: Classroom | None) -> Classroom:
    room = _held(classroom)
    if not is_teacher(request, room):
        raise HTTPException(HTTPStatus.FORBIDDEN, NOT_THE_TEACHER)
    return room
