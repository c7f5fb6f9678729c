"""The by hand page: the worked example, its exercises, and models whose weights are written by hand."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from pydantic import Field

from headscope.app.pages.four_heads import MadeModels, OpenedModel
from headscope.app.pages.schema import SCHEMA_VERSION, Request, Response
from headscope.lab.teach.by_hand import ROLES, HandSizes, by_hand
from headscope.lab.teach.crafted_heads import word_tokenizer
from headscope.lab.teach.exercises import BOXES, Checked, InventTwoHeads, check_fork
from headscope.lab.teach.worked_example import FEATURES, CalculationStep, HeadWork, WorkedExample, work

HAND_WORDS = (
    *(",", ".", "red", "blue", "green", "cat", "dog", "bird", "horse", "tree", "road", "river", "house", "door"),
    *("lamp", "stone", "saw", "met", "left", "found", "followed", "and", "then", "but", "or", "the", "a", "old"),
    *("small", "it", "was"),
)
"""The vocabulary of the models by hand: two separators, then words. Anything else is one unknown word."""

HAND_TEXTS = {"separators": "red cat , blue dog . green bird , old horse"}
HAND_TEXT = "red cat blue dog , green bird red cat blue dog , green bird"

Number = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(max_length=32)]
Matrix = Annotated[list[Vector], Field(max_length=32)]
Vectors = Annotated[dict[str, Vector], Field(max_length=32)]
Scorecard = Annotated[dict[str, Number], Field(max_length=32)]


class ExampleHead(Request):
    """One head of the worked example."""

    asks: str = Field(max_length=120)
    W_Q: Matrix
    W_K: Matrix
    scorecard: Scorecard


class WorkedRequest(Request):
    """The parts of the worked example that the user changed."""

    x: Vectors | None = None
    heads: list[ExampleHead] | None = Field(default=None, min_length=1, max_length=4)
    values: Vectors | None = None
    W_O: Matrix | None = None


class ExampleHeadWork(Response):
    """What one head computes. ``products`` are weight × value, one row per word: they sum to ``delivered``, its z."""

    query: Vector
    keys: Vectors
    scores: Scorecard
    weights: Scorecard
    products: Vectors
    delivered: Vector


class WorkedResponse(Response):
    """The worked example, computed."""

    schema_version: int = SCHEMA_VERSION
    sentence: str
    reader: str
    features: list[str]
    x: Vectors
    values: Vectors
    W_O: Matrix
    heads: list[ExampleHead]
    work: list[ExampleHeadWork]
    concatenated: Vector
    through_identity: Vector
    mixed: Vector
    steps: list[CalculationStep]


class ExerciseResponse(Response):
    """The two exercises: invent two heads, and draw the fork from memory."""

    sentence: str
    reader: str
    values: Vectors
    boxes: list[str]


class InventedRequest(Request):
    """Two invented scorecards, values of the user's own, and what they worked out: each head's sum, both end to end."""

    heads: list[Scorecard] = Field(min_length=2, max_length=2)
    values: Vectors | None = None
    sums: list[Annotated[str, Field(max_length=400)]] = Field(default=[], max_length=2)
    concatenated: str = Field(default="", max_length=800)
    attempt: int = Field(default=1, ge=1, le=1000, description="a wrong sum gets a hint first")


class ForkRequest(Request):
    """Arrows between boxes, by their names."""

    arrows: list[tuple[Annotated[str, Field(max_length=40)], Annotated[str, Field(max_length=40)]]] = Field(
        max_length=36
    )


class HandRole(Response):
    """A model whose weights are written by hand, not trained."""

    role: str
    says: str
    layers: int


class HandRequest(Request):
    """A model by hand to open in the microscope."""

    role: str = Field(max_length=40)


def worked(asked: WorkedRequest) -> WorkedResponse:
    """The example with the user's changes, computed."""
    done = work(WorkedExample.from_dict(asked.model_dump(exclude_none=True)))
    computed = {name: getattr(done, name) for name in ("concatenated", "through_identity", "mixed", "steps")}
    heads = [_head_work(done.example, index, head) for index, head in enumerate(done.heads)]
    return WorkedResponse(**asdict(done.example), features=list(FEATURES), work=heads, **computed)


def _head_work(example: WorkedExample, index: int, head: HeadWork) -> ExampleHeadWork:
    scorecard = example.heads[index].scorecard
    products = {word: [scorecard[word] * number for number in row] for word, row in example.values.items()}
    computed = {name: getattr(head, name) for name in ("query", "keys", "scores", "weights")}
    return ExampleHeadWork(**computed, products=products, delivered=head.z)


def exercise() -> ExerciseResponse:
    invent = InventTwoHeads()
    return ExerciseResponse(sentence=invent.sentence, reader=invent.reader, values=invent.values, boxes=list(BOXES))


def check_invented(asked: InventedRequest) -> Checked:
    """Check two invented heads; what is left empty is not checked."""
    invent = InventTwoHeads()
    if asked.values is not None:
        invent = replace(invent, values=invent.own_values(asked.values))
    return invent.check(asked.heads, asked.sums, concatenated=asked.concatenated, attempt=asked.attempt)


def check_drawn(asked: ForkRequest) -> Checked:
    """Check the drawn fork."""
    return check_fork(asked.arrows)


def hand_roles() -> list[HandRole]:
    """Every model by hand, with the first line of its docstring."""
    says = {role: (make.__doc__ or "").strip().split("\n")[0] for role, make in ROLES.items()}
    return [HandRole(role=role, says=says[role], layers=1 + (role == "induction")) for role in ROLES]


def open_by_hand(made: MadeModels, asked: HandRequest) -> OpenedModel:
    """Add a model by hand to a client's models."""
    model = by_hand(asked.role, HandSizes(vocabulary=len(HAND_WORDS) + 1))
    text = HAND_TEXTS.get(asked.role, HAND_TEXT)
    name = f"by-hand-{asked.role.replace(' ', '-')}"
    return made.open(name, model, word_tokenizer(HAND_WORDS), text)
