"""The four heads page: train one head per target pattern on a sentence, and open the result in the microscope."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from headscope.app.lru import LRU
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.schema import SCHEMA_VERSION, Emit, Request, Response
from headscope.app.wire import numbers
from headscope.lab.teach.crafted_heads import Crafted, CraftedHead, CraftSettings, Snapshot, craft
from headscope.lab.teach.target_patterns import (
    SENTENCE,
    Target,
    made_sentence,
    sentence_targets,
    split_words,
)
from headscope.models.native import NativeModel
from headscope.scope import Scope

MAX_SENTENCE = 2_000
MAX_HEADS = 8
MAX_STEPS = 1_000
KEPT_CRAFTED = 16  # trained heads, so that opening them in the microscope does not train them again

Share = Annotated[float, Field(allow_inf_nan=False)]
Arrow = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class SentenceRequest(Request):
    """A sentence; or, with a seed, one made by the small grammar; or neither, for the first sentence."""

    sentence: str | None = Field(default=None, max_length=MAX_SENTENCE)
    seed: int | None = Field(default=None, ge=0, le=1_000_000)


class TargetPattern(Request):
    """What one head should attend to: arrows (query, key) between words.

    Several arrows from one word share its row: equally, or as ``shares`` says, one for each arrow.
    """

    name: str = Field(max_length=60)
    asks: str = Field(default="", max_length=120)
    arrows: list[Arrow] = Field(default=[], max_length=4096)
    shares: list[Share] = Field(default=[], max_length=4096)


class SentenceResponse(Response):
    """A sentence split into words, and its targets: four, of which some may have no arrows."""

    sentence: str
    words: list[str]
    targets: list[TargetPattern]


class CraftRequest(Request):
    """Heads to be trained, one per target."""

    sentence: str = Field(max_length=MAX_SENTENCE)
    targets: list[TargetPattern] = Field(min_length=1, max_length=MAX_HEADS)
    d_head: int = Field(default=8, ge=1, le=32)
    steps: int = Field(default=120, ge=1, le=MAX_STEPS)
    seed: int = Field(default=0, ge=0, le=1_000_000)
    places: bool = Field(default=True, description="whether a head reads positions, not only words")


class CraftBegun(Response):
    """Arrays: ``wanted`` float32 [head, query, key]; ``finds`` uint8 [head, query], 1 for rows with a target."""

    event: Literal["begun"] = "begun"
    schema_version: int = SCHEMA_VERSION
    words: list[str]
    steps: int


class CraftStep(Response):
    """The heads after some steps. Arrays: ``patterns`` float32 [head, query, key]."""

    event: Literal["step"] = "step"
    step: int
    loss: list[float]
    hit: list[float]


class CraftDone(Response):
    """The finished heads: how close each came. Array: ``losses`` float32 [step, head]."""

    event: Literal["done"] = "done"
    heads: list[CraftedHead]


class OpenedModel(Response):
    """A model that was added to the registry, and a text to look at with it."""

    model: str
    text: str


def sentence(asked: SentenceRequest) -> SentenceResponse:
    """A sentence, its words and its targets; those of an unknown sentence are guessed."""
    text = asked.sentence
    if text is None:
        text = SENTENCE if asked.seed is None else made_sentence(asked.seed)
    words = split_words(text)
    patterns = [
        TargetPattern(name=each.name, asks=each.asks, arrows=list(each.arrows), shares=list(each.shares))
        for each in sentence_targets(words)
    ]
    return SentenceResponse(sentence=text, words=words, targets=patterns)


@dataclass(frozen=True)
class MadeModels:
    """Where a client's models are added, so that the microscope can open them."""

    registry: ModelRegistry
    client: str = ""

    def open(self, name: str, model: nn.Module, tokenizer: object, text: str) -> OpenedModel:
        """Add a model, unless it is there."""
        if name not in self.registry.names(self.client):
            self.registry.add(name, Scope(NativeModel(model, tokenizer, name)), self.client)
        return OpenedModel(model=name, text=text)


class HeadTrainer:
    """Train one head per target, report every few steps, and cache the trained heads."""

    def __init__(self) -> None:
        self._crafted: LRU[str, Crafted] = LRU(KEPT_CRAFTED)
        self._lock = threading.Lock()

    def craft(self, asked: CraftRequest, emit: Emit) -> None:
        """Train the heads, and emit their patterns as they form."""
        words = split_words(asked.sentence)
        rows = [target.rows(words) for target in _targets(asked)]
        wanted, finds = (torch.stack([row[part] for row in rows]) for part in (0, 1))
        begun = CraftBegun(words=words, steps=asked.steps)
        emit(begun, {"wanted": numbers(wanted), "finds": finds.to(torch.uint8).numpy()})

        def report(snapshot: Snapshot) -> None:
            step = CraftStep(step=snapshot.step, loss=snapshot.loss, hit=snapshot.hit)
            emit(step, {"patterns": numbers(snapshot.patterns)})

        crafted = self._train(asked, report)
        emit(CraftDone(heads=crafted.heads), {"losses": numbers(crafted.losses)})

    def open_crafted(self, asked: CraftRequest, made: MadeModels) -> OpenedModel:
        """Add these heads to a client's models. Equal requests give equal heads: a name always means one model."""
        with self._lock:
            crafted = self._crafted.get(_key(asked))
        crafted = crafted or self._train(asked)
        return made.open(f"four-heads-{_key(asked)}", crafted.model, crafted.tokenizer, asked.sentence)

    def _train(self, asked: CraftRequest, report: Callable[[Snapshot], None] | None = None) -> Crafted:
        settings = CraftSettings(d_head=asked.d_head, steps=asked.steps, seed=asked.seed, positions=asked.places)
        crafted = craft(asked.sentence, _targets(asked), settings, report)
        with self._lock:
            self._crafted[_key(asked)] = crafted
        return crafted


def _targets(asked: CraftRequest) -> list[Target]:
    return [Target(each.name, each.asks, tuple(each.arrows), shares=tuple(each.shares)) for each in asked.targets]


def _key(asked: CraftRequest) -> str:
    return hashlib.sha256(asked.model_dump_json().encode()).hexdigest()[:32]
