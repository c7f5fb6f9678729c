"""The routes of the lab's pages: four heads, by hand, one or many."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app import contest, pencil
from headscope.app import schema_lab as lab
from headscope.app.server.desk import PROBLEM
from headscope.app.server.streaming import stream, streams
from headscope.app.shelf import Shelf
from headscope.app.workbench import Workbench


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
        return pencil.worked(asked)

    @router.get("/exercise", responses=PROBLEM)
    def exercise() -> lab.ExerciseCard:
        return pencil.exercise()

    @router.post("/exercise", responses=PROBLEM)
    def check_exercise(asked: lab.InventedRequest) -> lab.CheckedCard:
        return pencil.check_invented(asked)

    @router.post("/fork", responses=PROBLEM)
    def check_fork(asked: lab.ForkRequest) -> lab.CheckedCard:
        return pencil.check_drawn(asked)

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
        return contest.results()

    @router.post("/one-or-many", **streams(lab.RunBegun, lab.OutcomeCard))
    async def run(request: Request, asked: lab.RunRequest) -> Response:
        return await stream(request, running, lambda tell: contest.run(asked, tell))

    return router
