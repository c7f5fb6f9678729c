"""Routes of the lab's pages: four heads, by hand, one or many. Long work has separate queues."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages import by_hand, four_heads, one_or_many
from headscope.app.pages.four_heads import HeadsRequest, MadeModels, OpenedModel, open_heads
from headscope.app.pages.one_or_many import OutcomeFrame, RunBegun, RunRequest
from headscope.app.server.clients import client_id
from headscope.app.server.streaming import stream, stream_of
from headscope.app.server.worker import PROBLEM, RequestWorker
from headscope.lab.teach.worked_example import WorkedExample


def routes(worker: RequestWorker) -> APIRouter:
    """Open trained heads, give the worked example, and train one head against many."""
    router = APIRouter(prefix="/api/lab", tags=["lab"])
    router.post("/sentence", responses=PROBLEM)(four_heads.sentence)

    @router.post("/craft/open", response_model=OpenedModel, responses=PROBLEM)
    async def open_crafted(request: Request, asked: HeadsRequest) -> Any:
        made = MadeModels(worker.registry, client_id(request))
        return await worker.run_in(worker.training, request, lambda: open_heads(made, asked))

    @router.get("/worked", responses=PROBLEM)
    def worked() -> WorkedExample:
        return WorkedExample()

    router.get("/by-hand", responses=PROBLEM)(by_hand.hand_roles)

    @router.post("/by-hand/open", response_model=OpenedModel, responses=PROBLEM)
    async def open_by_hand(request: Request, asked: by_hand.HandRequest) -> Any:
        made = MadeModels(worker.registry, client_id(request))
        return await worker.run_in(worker.training, request, lambda: by_hand.open_by_hand(made, asked), kind="short")

    router.get("/puzzles", responses=PROBLEM)(by_hand.puzzle_list)
    router.post("/puzzle", responses=PROBLEM)(by_hand.mark_puzzle)

    @router.post("/puzzle/open", response_model=OpenedModel, responses=PROBLEM)
    async def open_puzzle(request: Request, asked: by_hand.PuzzleRequest) -> Any:
        made = MadeModels(worker.registry, client_id(request))
        return await worker.run_in(worker.training, request, lambda: by_hand.open_puzzle(made, asked), kind="short")

    router.get("/one-or-many", responses=PROBLEM)(one_or_many.results)

    @router.post("/one-or-many", **stream_of(RunBegun, OutcomeFrame))
    async def run(request: Request, asked: RunRequest) -> Response:
        return await stream(worker, worker.comparing, request, lambda emit: one_or_many.run(asked, emit))

    return router
