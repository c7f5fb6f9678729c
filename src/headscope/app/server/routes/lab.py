"""Routes of the lab's pages: four heads, by hand, one or many. What takes long is streamed, one at a time."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages import by_hand, four_heads, one_or_many
from headscope.app.pages.four_heads import CraftBegun, CraftDone, CraftRequest, CraftStep, HeadTrainer, OpenedModel
from headscope.app.pages.one_or_many import OutcomeFrame, RunBegun, RunRequest
from headscope.app.server.streaming import stream, stream_of
from headscope.app.server.worker import PROBLEM


def routes(registry: ModelRegistry) -> APIRouter:
    """Train heads to target patterns, compute the worked example, and train one head against many."""
    router = APIRouter(prefix="/api/lab", tags=["lab"])
    trainer, training, running = HeadTrainer(registry), asyncio.Lock(), asyncio.Lock()
    router.post("/sentence", responses=PROBLEM)(four_heads.sentence)
    router.post("/arrows", responses=PROBLEM)(four_heads.arrows)

    @router.post("/craft", **stream_of(CraftBegun, CraftStep, CraftDone))
    async def craft(request: Request, asked: CraftRequest) -> Response:
        return await stream(request, training, lambda emit: trainer.craft(asked, emit))

    router.post("/craft/open", responses=PROBLEM)(trainer.open_crafted)
    router.post("/worked", responses=PROBLEM)(by_hand.worked)
    router.get("/exercise", responses=PROBLEM)(by_hand.exercise)
    router.post("/exercise", responses=PROBLEM)(by_hand.check_invented)
    router.post("/fork", responses=PROBLEM)(by_hand.check_drawn)
    router.get("/by-hand", responses=PROBLEM)(by_hand.hand_roles)

    @router.post("/by-hand/open", responses=PROBLEM)
    def open_by_hand(asked: by_hand.HandRequest) -> OpenedModel:
        return by_hand.open_by_hand(registry, asked)

    router.get("/one-or-many", responses=PROBLEM)(one_or_many.results)

    @router.post("/one-or-many", **stream_of(RunBegun, OutcomeFrame))
    async def run(request: Request, asked: RunRequest) -> Response:
        return await stream(request, running, lambda emit: one_or_many.run(asked, emit))

    return router
