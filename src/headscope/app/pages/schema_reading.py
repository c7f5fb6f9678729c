"""What the pages that are read are told: the film, model cards and lessons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from headscope.app.pages.schema import QuestionCard, Strict

MAX_CONFIG = 200_000
Size = Annotated[int, Field(ge=1, le=1_000_000_000)]


class FilmNames(Strict):
    """The films this page may show; it opens on the first."""

    names: list[str]


class FilmMoment(Strict):
    """One point of the film; losses are nats a token, None where nothing was measured."""

    step: int
    tokens: int
    loss: float | None
    text_loss: float | None
    first_copy: float | None
    second_copy: float | None


class FilmSentence(Strict):
    """A sentence whose patterns the film keeps."""

    text: str
    tokens: list[str]


class FilmEvidence(Strict):
    """A number that moved: from where to where, and between which tokens it passed half of its way."""

    name: str
    start: float
    end: float
    before: int
    after: int


class FilmPhase(Strict):
    """The stretch in which induction appears: the last point before it stirs, the first at which it stands."""

    before: int
    after: int
    quiet: float
    risen: float
    evidence: list[FilmEvidence]


class FilmCard(Strict):
    """A training run. Arrays: ``repeats``, ``text`` [point, head, question], ``entropy`` [point, head] and, for each
    sentence, ``patterns0`` … [frame, head, query, key] as 65,535 times the weight."""

    name: str
    heads: list[str]
    questions: list[QuestionCard]
    moments: list[FilmMoment]
    sentences: list[FilmSentence]
    frames: list[int]
    phase: FilmPhase | None


class CardLine(Strict):
    """A built-in card in a list. ``d_head`` is what a head delivers: MLA counts by its values."""

    name: str
    title: str
    attention: Literal["MHA", "GQA", "MQA", "MLA"]
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    total: int | None


class CardLines(Strict):
    cards: list[CardLine]


class Sizes(Strict):
    """A model by its bare sizes, built like a Llama."""

    d_model: Size
    n_heads: Size
    n_kv_heads: Size | None = None
    d_head: Size | None = None
    n_layers: Size = 1
    d_ff: Size | None = None
    vocabulary: Size | None = None


class CardRequest(Strict):
    """One of a name, a config or sizes; then other heads or KV heads, if one wants to see what changes."""

    name: Annotated[str, Field(max_length=200)] | None = None
    config: Annotated[str, Field(max_length=MAX_CONFIG)] | None = None
    sizes: Sizes | None = None
    n_heads: Size | None = None
    n_kv_heads: Size | None = None


class Part(Strict):
    name: str
    count: int


class KVChoice(Strict):
    """A number of KV heads, and the cache in fp16 bytes at each of the card's lengths."""

    n_kv_heads: int
    attention: str
    total: int | None
    cache: list[int]


class HeadChoice(Strict):
    n_heads: int
    d_head: int


class CardAnswer(Strict):
    """A card, counted. ``lengths`` are the context lengths at which caches (fp16 bytes) and work (FLOP) are given."""

    name: str
    title: str
    source: str
    config: dict[str, Any]
    lit: dict[str, int] = Field(description="the config's fields about heads, with their values now")
    model_type: str
    attention: Literal["MHA", "GQA", "MQA", "MLA"]
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    windows: list[int | None] = Field(description="a layer each: how far it looks back; null for all, 0 for no heads")
    experts: str | None
    context: int | None
    heads_in_all: int
    parts: list[Part]
    attention_parameters: int
    total: int | None
    active: int | None
    exact: bool
    changed: bool
    published: HeadChoice
    published_kv_heads: int
    head_choices: list[HeadChoice]
    lengths: list[int]
    token_bytes: int = Field(description="of the cache, for one token, in fp16")
    cache: list[int]
    expanded: list[int] | None = Field(description="MLA: if every head's key and value were kept instead")
    kv_choices: list[KVChoice]
    work: list[dict[str, int]]
    notes: list[str]


class LessonLine(Strict):
    number: int
    name: str
    title: str
    questions: int


class LessonLines(Strict):
    lessons: list[LessonLine]


class LessonQuestion(Strict):
    """A question without its answer. One that is numeric has no options."""

    text: str
    numeric: bool
    options: list[str]


class LessonCard(Strict):
    """A lesson, computed. Texts are Markdown: paragraphs, lists, emphasis and code."""

    number: int
    name: str
    title: str
    idea: str
    code: str
    output: str
    computed: str
    try_it: str
    questions: list[LessonQuestion]


class AnswerRequest(Strict):
    """A letter, or a number for a numeric question."""

    question: Annotated[int, Field(ge=1)]
    answer: Annotated[str, Field(min_length=1, max_length=100)]


class Marked(Strict):
    right: bool
    says: str
