"""Models whose weights are written, not trained: those of the by hand page, and puzzles."""

from __future__ import annotations

import datetime

from pydantic import Field

from headscope.app.pages.four_heads import MadeModels, OpenedModel
from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.lab.compile import CompileOptions, Program, compile_program
from headscope.lab.compile.programs import SELECTORS
from headscope.lab.teach.puzzle import LEVELS, Told, named, of_week

HAND = {
    "previous token": ("previous token", "Every token reads the one before it."),
    "itself": ("itself", "Every token reads itself."),
    "first token": ("first token", "Every token reads the first one: what a sink does."),
    "separators": ("punctuation", "Every token reads the separators before it, or the first token."),
    "duplicate token": ("copies", "Every token reads earlier copies of itself, or the first token."),
    "induction": (
        "after a copy",
        'Two layers: the first notes at each token which one stood before it; the second asks "who stood after me?".',
    ),
}
"""Models by name: the rule that their head is compiled from, and what it does in words."""

TEXT = " Anna sees the cold river, Boris brings bread. Anna sees the cold river, Boris sleeps."
PLAIN = CompileOptions(decoys=0, rotate=False, noise=0.0)


class HandRole(Response):
    """A model whose weights are written by hand, not trained."""

    role: str
    says: str
    layers: int


class HandRequest(Request):
    """A model with weights written by hand, to open in the microscope."""

    role: str = Field(max_length=40)


class PuzzleRequest(Request):
    """A puzzle by its name, such as puzzle-3-7, and answers: a job by the name of a head."""

    name: str = Field(max_length=40)
    answers: dict[str, str] = Field(default={}, max_length=40)
    solve: bool = Field(default=False, description="tell the solution too")


class PuzzleResponse(Response):
    """A puzzle as it is shown: how many heads have a job, and the jobs that they may have, in words."""

    level: int
    jobs: int
    choices: dict[str, str]
    told: list[Told]
    solution: dict[str, str]


class PuzzleList(Response):
    """How many levels there are, and the name of this week's puzzle."""

    levels: int
    week: str


def puzzle_list() -> PuzzleList:
    """The levels, and the puzzle of this week."""
    return PuzzleList(levels=len(LEVELS), week=of_week(datetime.date.today()).name)


def mark_puzzle(asked: PuzzleRequest) -> PuzzleResponse:
    """Show a puzzle and say which answers are right; the solution only when it is asked for."""
    found = named(asked.name)
    solution = found.solution if asked.solve else {}
    return PuzzleResponse(
        level=found.level, jobs=len(found.solution), choices=dict(found.choices), told=found.mark(asked.answers),
        solution=solution,
    )  # fmt: skip


def open_puzzle(made: MadeModels, asked: PuzzleRequest) -> OpenedModel:
    """Add a puzzle's model to a client's models."""
    found = named(asked.name)
    return made.open(found.name, found.compiled.model, found.compiled.tokenizer, found.text)


def hand_roles() -> list[HandRole]:
    """List every model whose weights are written by hand."""
    return [
        HandRole(role=role, says=says, layers=1 + bool(SELECTORS[rule].needs)) for role, (rule, says) in HAND.items()
    ]


def open_by_hand(made: MadeModels, asked: HandRequest) -> OpenedModel:
    """Add a model with weights written by hand to a client's models."""
    if asked.role not in HAND:
        raise InputError(f"there is no hand-written head for {asked.role!r}; choose from {', '.join(HAND)}")
    compiled = compile_program(Program(asked.role, (HAND[asked.role][0],)), PLAIN)
    return made.open(f"by-hand-{asked.role.replace(' ', '-')}", compiled.model, compiled.tokenizer, TEXT)
