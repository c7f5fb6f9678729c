"""The four heads page: a sentence with targets for its heads; heads that the page has trained open as a model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.lab.teach.crafted_heads import CraftedHeads, word_tokenizer
from headscope.lab.teach.target_patterns import SENTENCE, Target, made_sentence, sentence_targets, split_words
from headscope.models.native import NativeModel
from headscope.scope import Scope

MAX_SENTENCE = 2_000
MAX_HEADS = 8
D_MODEL = 32  # as in web/src/four-heads/craft-heads.ts

Number = Annotated[float, Field(ge=-1e4, le=1e4)]
Row = Annotated[list[Number], Field(min_length=D_MODEL, max_length=D_MODEL)]
Matrix = Annotated[list[Row], Field(min_length=1, max_length=MAX_HEADS * D_MODEL)]


class SentenceRequest(Request):
    """A sentence; or, with a seed, one made by the small grammar; or neither, for the first sentence."""

    sentence: str | None = Field(default=None, max_length=MAX_SENTENCE)
    seed: int | None = Field(default=None, ge=0, le=1_000_000)


class SentenceResponse(Response):
    """A sentence split into words, and its targets: four, of which some may have no arrows."""

    sentence: str
    words: list[str]
    targets: list[Target]


class HeadsRequest(Request):
    """Trained heads: embeddings of the unknown and of each different word, of each place, W_Q and W_K of all heads."""

    sentence: str = Field(max_length=MAX_SENTENCE)
    finds: list[list[bool]] = Field(min_length=1, max_length=MAX_HEADS, description="by head: the rows with a target")
    tokens: Matrix
    places: Matrix
    w_q: Matrix
    w_k: Matrix


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
    return SentenceResponse(sentence=text, words=words, targets=sentence_targets(words))


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


def open_heads(made: MadeModels, asked: HeadsRequest) -> OpenedModel:
    """Add trained heads to a client's models. Equal requests give equal heads: a name always means one model."""
    words, heads = split_words(asked.sentence), len(asked.finds)
    given = [len(asked.tokens), len(asked.places), len(asked.w_k), *map(len, asked.finds)]
    wanted = [len(set(words)) + 1, len(words), len(asked.w_q), *[len(words)] * heads]
    if given != wanted or len(asked.w_q) % heads:
        raise InputError(
            f"these are not {heads} heads of this sentence: it has {len(words)} words, {len(set(words))} different, "
            f"and there are {len(asked.tokens)} embeddings of words, {len(asked.places)} of places, {len(asked.w_q)} "
            f"rows of W_Q and {len(asked.w_k)} of W_K; train them again"
        )
    crafted = CraftedHeads(
        words, torch.tensor(asked.finds),
        *(torch.tensor(rows) for rows in (asked.tokens, asked.places, asked.w_q, asked.w_k)),
    )  # fmt: skip
    name = f"four-heads-{hashlib.sha256(asked.model_dump_json().encode()).hexdigest()[:32]}"
    return made.open(name, crafted.model(), word_tokenizer(words), asked.sentence)
