"""Routes of heads in words: the rules of a model's heads, their patterns, what they cost, and rules made heads of."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headscope.app.pages.four_heads import MadeModels, OpenedModel
from headscope.app.pages.rules import compiled_rules
from headscope.app.pages.rules.compiled_rules import CompiledHead, CompileRequest
from headscope.app.pages.rules.head_words import (
    RuleCostRequest,
    RuleCostResponse,
    RulePatternRequest,
    RulePatternResponse,
    RulesResponse,
)
from headscope.app.server.clients import client_id
from headscope.app.server.worker import PROBLEM, Worker, container_of


def routes(worker: Worker) -> APIRouter:
    """Fitting waits for the model like any long work: it pauses for others, and stops when its client leaves."""
    router, registry = APIRouter(prefix="/api/rules", tags=["rules"]), worker.registry

    @router.get("", response_model=RulesResponse, responses=PROBLEM)
    async def rules(request: Request, model: str | None = None) -> Any:
        words = registry.session(model, client_id(request)).words
        return await worker.run_in(worker.reports, request, words.state, kind="short")

    @router.post("", response_model=RulesResponse, responses=PROBLEM)
    async def fit(request: Request, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.words.fit(), kind="long")

    @router.post("/pattern", **container_of(RulePatternResponse))
    async def pattern(request: Request, asked: RulePatternRequest, model: str | None = None) -> Response:
        return await worker.run_packed(request, model, lambda session: session.words.pattern(asked))

    @router.post("/cost", response_model=RuleCostResponse, responses=PROBLEM)
    async def cost(request: Request, asked: RuleCostRequest, model: str | None = None) -> Any:
        return await worker.run(request, model, lambda session: session.words.cost(asked), kind="long")

    router.get("/compile", responses=PROBLEM)(compiled_rules.compilable)

    @router.post("/compile", **container_of(CompiledHead))
    async def compile_rule(request: Request, asked: CompileRequest) -> Response:
        return await worker.run_packed_in(
            worker.training, request, lambda: compiled_rules.compiled_head(asked), kind="short"
        )

    @router.post("/compile/open", response_model=OpenedModel, responses=PROBLEM)
    async def open_compiled(request: Request, asked: CompileRequest) -> Any:
        made = MadeModels(registry, client_id(request))
        return await worker.run_in(worker.training, request, lambda: compiled_rules.open_compiled(asked, made))

    return router
