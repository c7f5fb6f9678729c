"""The routes of the lab's pages: four heads, by hand, one or many."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.model_registry import Shelf
from headscope.app.pages import by_hand as by_hand_page
from headscope.app.pages import one_or_many as one_or_many_page
from headscope.app.pages import schema_lab as lab
from headscope.app.pages.four_heads import Workbench
from headscope.app.server.streaming import stream, streams
from headscope.app.server.worker import PROBLEM


def routes(shelf: Shelf) -> APIRouter:
    """Make heads, work an example, run a contest. What takes a while is streamed, one at a time."""
    router = APIRouter(prefix="/api/lab", tags=["lab"])
    bench = Workbench(shelf)
    for part in (_four_heads(bench), _by_hand(bench), _one_or_many()):
        router.include_router(part)
    return router


def _four_heads(bench: Workbench) -> APIRouter:
    router, fitting = APIRouter(), asyncio.Lock()

    @router.post("/sentence", responses=PROBLEM)
    def sentence(asked: lab.SentenceRequest) -> lab.SentenceCard:
        return bench.sentence(asked)

    @router.post("/arrows", responses=PROBLEM)
    def arrows(asked: lab.ArrowsRequest) -> lab.ArrowsCard:
        return bench.arrows(asked)

    @router.post("/craft", **streams(lab.CraftBegun, lab.CraftStep, lab.CraftDone))
    async def craft(request: Request, asked: lab.CraftRequest) -> Response:
        return await stream(request, fitting, lambda tell: bench.craft(asked, tell))

    @router.post("/craft/open", responses=PROBLEM)
    def open_crafted(asked: lab.CraftRequest) -> lab.OpenedCard:
        return bench.open_crafted(asked)

    return router


def _by_hand(bench: Workbench) -> APIRouter:
    router = APIRouter()

    @router.post("/worked", responses=PROBLEM)
    def worked(asked: lab.WorkedRequest) -> lab.WorkedCard:
        return by_hand_page.worked(asked)

    @router.get("/exercise", responses=PROBLEM)
    def exercise() -> lab.ExerciseCard:
        return by_hand_page.exercise()

    @router.post("/exercise", responses=PROBLEM)
    def check_exercise(asked: lab.InventedRequest) -> lab.CheckedCard:
        return by_hand_page.check_invented(asked)

    @router.post("/fork", responses=PROBLEM)
    def check_fork(asked: lab.ForkRequest) -> lab.CheckedCard:
        return by_hand_page.check_drawn(asked)

    @router.get("/by-hand", responses=PROBLEM)
    def by_hand() -> lab.HandRoles:
        return bench.hand_roles()

    @router.post("/by-hand/open", responses=PROBLEM)
    def open_by_hand(asked: lab.HandRequest) -> lab.OpenedCard:
        return bench.open_by_hand(asked)

    return router


def _one_or_many() -> APIRouter:
    router, running = APIRouter(), asyncio.Lock()

    @router.get("/one-or-many", responses=PROBLEM)
    def one_or_many() -> lab.ResultsCard:
        return one_or_many_page.results()

    @router.post("/one-or-many", **streams(lab.RunBegun, lab.OutcomeCard))
    async def run(request: Request, asked: lab.RunRequest) -> Response:
        return await stream(request, running, lambda tell: one_or_many_page.run(asked, tell))

    return router
