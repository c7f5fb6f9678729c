"""What the lab's pages may ask and what they are told: four heads, by hand, one or many."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headscope.app.pages.schema import SCHEMA_VERSION, Strict

MAX_SENTENCE = 2_000
MAX_HEADS = 8
MAX_STEPS = 1_000

Number = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(max_length=32)]
Matrix = Annotated[list[Vector], Field(max_length=32)]
Table = Annotated[dict[str, Vector], Field(max_length=32)]
Card = Annotated[dict[str, Number], Field(max_length=32)]
Arrow = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class SentenceRequest(Strict):
    """A person's own sentence; or, with a seed, one made by the small grammar; or neither, for the first sentence."""

    sentence: str | None = Field(default=None, max_length=MAX_SENTENCE)
    seed: int | None = Field(default=None, ge=0, le=1_000_000)


class TargetCard(Strict):
    """What one head should look at: arrows (from, to) between places.

    Several arrows from one word share its row: equally, or as ``shares`` says, one for each arrow.
    """

    name: str = Field(max_length=60)
    asks: str = Field(default="", max_length=120)
    arrows: list[Arrow] = Field(default=[], max_length=4096)
    shares: list[Number] = Field(default=[], max_length=4096)


class SentenceCard(Strict):
    """A sentence cut into words, and the targets that belong to it where it is one of ours."""

    sentence: str
    words: list[str]
    targets: list[TargetCard]


class ArrowsRequest(Strict):
    """Arrows as a person writes them, with their shares if these are not equal: it > horse .8, it > road .2."""

    sentence: str = Field(max_length=MAX_SENTENCE)
    text: str = Field(max_length=20_000)


class ArrowsCard(Strict):
    """The same as places, and a share for each."""

    arrows: list[Arrow]
    shares: list[Number]


class CraftRequest(Strict):
    """Heads to be trained, one for each target."""

    sentence: str = Field(max_length=MAX_SENTENCE)
    targets: list[TargetCard] = Field(min_length=1, max_length=MAX_HEADS)
    d_head: int = Field(default=8, ge=1, le=32)
    steps: int = Field(default=120, ge=1, le=MAX_STEPS)
    seed: int = Field(default=0, ge=0, le=1_000_000)
    places: bool = Field(default=True, description="whether a head sees where a word stands, not only which it is")


class CraftBegun(Strict):
    """Arrays: ``wanted`` float32 [head, query, key]; ``finds`` uint8 [head, query], 1 for rows with a target."""

    event: Literal["begun"] = "begun"
    schema_version: int = SCHEMA_VERSION
    words: list[str]
    steps: int


class CraftStep(Strict):
    """The heads after some steps. Arrays: ``patterns`` float32 [head, query, key]."""

    event: Literal["step"] = "step"
    step: int
    loss: list[float]
    hit: list[float]


class RowCard(Strict):
    """One row that has something to find: how much of its target is covered and, if little, why."""

    word: str
    place: int
    hit: float
    why: str


class HeadCard(Strict):
    """How close one head came, and the rows it missed."""

    name: str
    asks: str
    hit: float
    misses: list[RowCard]


class CraftDone(Strict):
    """The finished heads, and every word followed through them.

    Arrays, float32: ``losses`` [step, head]; ``values`` [head, word, d_head]; ``delivered`` [word, head, d_head];
    ``parts`` [word, head, d_model], each head's delivery through W_O; ``output`` [word, d_model], their sum.
    """

    event: Literal["done"] = "done"
    heads: list[HeadCard]
    d_model: int
    d_head: int


class OpenedCard(Strict):
    """A model that was put on the shelf, and a text to look at with it."""

    model: str
    text: str


class HandHeadCard(Strict):
    """One head of the worked example."""

    asks: str = Field(max_length=120)
    W_Q: Matrix
    W_K: Matrix
    scorecard: Card


class WorkedRequest(Strict):
    """The parts of the worked example that a person changed."""

    x: Table | None = None
    heads: list[HandHeadCard] | None = Field(default=None, min_length=1, max_length=4)
    values: Table | None = None
    W_O: Matrix | None = None


class HandHeadWork(Strict):
    """What one head did. ``products`` are weight × value, a row a word: their columns add up to ``delivered``."""

    query: Vector
    keys: Table
    scores: Card
    weights: Card
    products: Table
    delivered: Vector


class StepCard(Strict):
    """One step, written down as arithmetic."""

    title: str
    says: str
    lines: list[str]


class WorkedCard(Strict):
    """The worked example, computed."""

    schema_version: int = SCHEMA_VERSION
    sentence: str
    reader: str
    features: list[str]
    x: Table
    values: Table
    W_O: Matrix
    heads: list[HandHeadCard]
    work: list[HandHeadWork]
    concatenated: Vector
    through_identity: Vector
    mixed: Vector
    steps: list[StepCard]


class ExerciseCard(Strict):
    """The two exercises: invent two heads, and draw the fork from memory."""

    sentence: str
    reader: str
    values: Table
    boxes: list[str]


class InventedRequest(Strict):
    """Two invented scorecards, and what each head carries home if the person worked it out."""

    heads: list[Card] = Field(min_length=2, max_length=2)
    sums: list[Annotated[str, Field(max_length=400)]] = Field(default=[], max_length=2)


class ForkRequest(Strict):
    """Arrows between boxes, by their names."""

    arrows: list[tuple[Annotated[str, Field(max_length=40)], Annotated[str, Field(max_length=40)]]] = Field(
        max_length=36
    )


class RemarkCard(Strict):
    """One thing that was looked at, and what to say about it."""

    about: str
    right: bool
    says: str


class CheckedCard(Strict):
    """An answer, checked."""

    right: bool
    remarks: list[RemarkCard]


class HandRole(Strict):
    """A model whose weights are written, not trained."""

    role: str
    says: str
    layers: int


class HandRoles(Strict):
    """All of them."""

    roles: list[HandRole]


class HandRequest(Strict):
    """One of them, to be put on the shelf."""

    role: str = Field(max_length=40)


class OutcomeCard(Strict):
    """One way to spend the parameters: accuracy of each seed, their mean and its 95 % interval."""

    event: Literal["outcome"] = "outcome"
    task: str
    arm: str
    n_heads: int
    d_head: int
    n_layers: int
    d_ff: int
    n_parameters: int
    accuracies: list[float]
    parts_right: list[float]
    mean: float
    low: float
    high: float
    caught_up: bool


class LookupRow(Strict):
    """One row of the task: (key, value) pairs, the keys that are asked for, and the answer."""

    pairs: list[tuple[int, int]]
    asks: list[int]
    answer: list[int]


class ResultsCard(Strict):
    """What was measured for this release, and what follows from it."""

    schema_version: int = SCHEMA_VERSION
    seeds: int
    steps: int
    d_model: int
    tasks: list[str]
    chance: float
    arms: list[OutcomeCard]
    partition: list[OutcomeCard]
    partition_width: int
    partition_keys: int
    conclusions: list[str]
    on_partition: list[str]
    rows: list[LookupRow]


class RunRequest(Strict):
    """A small version, run here: all arms on one task, or one width cut into heads."""

    experiment: Literal["arms", "partition"]
    task: int = Field(default=0, ge=0, le=1, description="which of the tasks, for the arms")
    d_model: Literal[8, 16, 32] = 16
    heads: list[Annotated[int, Field(ge=1, le=32)]] = Field(default=[], max_length=6)
    seeds: int = Field(default=3, ge=1, le=5)
    steps: int = Field(default=600, ge=20, le=1200)


class RunBegun(Strict):
    """Which arms will be trained, in order."""

    event: Literal["begun"] = "begun"
    arms: list[str]


class ProblemFrame(Strict):
    """Something went wrong after the answer had begun."""

    event: Literal["problem"] = "problem"
    kind: str
    message: str
