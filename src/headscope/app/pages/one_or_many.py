"""The one or many page: the stored results on one head against many, and a small version trained on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field

from headscope.app.pages.schema import SCHEMA_VERSION, Emit, Request, Response
from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupTask
from headscope.lab.teach.one_or_many import (
    KEYS,
    PARTITION,
    ROLES,
    SOLVED,
    Outcome,
    arms,
    compare,
    conclusions,
    on_partition,
    partition_arms,
    stored_results,
)

SHOWN_ROWS = 6
TASKS = (KEYS, ROLES)
ARMS_WIDTH = Budget().d_model


@dataclass(frozen=True)
class OutcomeFrame(Outcome):
    """One way to spend the parameters, with the mean accuracy of its seeds and the 95 % interval."""

    event: Literal["outcome"]
    average: float
    low: float
    high: float
    caught_up: bool


class LookupRow(Response):
    """One row of the task: (key, value) pairs, the keys that are asked for, and the answer."""

    pairs: list[tuple[int, int]]
    asks: list[int]
    answer: list[int]


class ResultsResponse(Response):
    """The results stored with this release, and what follows from them."""

    schema_version: int = SCHEMA_VERSION
    seeds: int
    steps: int
    d_model: int
    tasks: list[str]
    chance: float
    arms: list[OutcomeFrame]
    partition: list[OutcomeFrame]
    conclusions: list[str]
    on_partition: list[str]
    rows: list[LookupRow]


class RunRequest(Request):
    """A small version to train: all arms on one task, or one width split into heads."""

    experiment: Literal["arms", "partition"]
    task: int = Field(default=0, ge=0, le=1, description="which of the tasks, for the arms")
    d_model: Literal[8, 16, 32] = 16
    heads: list[Annotated[int, Field(ge=1, le=32)]] = Field(default=[], max_length=6)
    seeds: int = Field(default=3, ge=1, le=5)
    steps: int = Field(default=600, ge=20, le=1200)


class RunBegun(Response):
    """Which arms will be trained, in order."""

    event: Literal["begun"] = "begun"
    arms: list[str]


def results() -> ResultsResponse:
    """The stored results."""
    stored = stored_results()
    return ResultsResponse(
        seeds=stored.seeds,
        steps=stored.budget.steps,
        d_model=stored.budget.d_model,
        tasks=[task.name for task in TASKS],
        chance=KEYS.chance,
        arms=[_frame(outcome) for outcome in stored.arms],
        partition=[_frame(outcome) for outcome in stored.partition + stored.other_widths],
        conclusions=conclusions(stored),
        on_partition=on_partition(stored),
        rows=_rows(KEYS),
    )


def run(asked: RunRequest, emit: Emit) -> None:
    """Train the arms one after the other, and emit the outcome of each."""
    task, ways = _plan(asked)
    emit(RunBegun(arms=[way.name for way in ways]))
    width = ARMS_WIDTH if asked.experiment == "arms" else asked.d_model
    budget = Budget(d_model=width, steps=asked.steps)
    compare(task, ways, asked.seeds, budget, lambda outcome: emit(_frame(outcome)))


def _plan(asked: RunRequest) -> tuple[LookupTask, Sequence[Arm]]:
    if asked.experiment == "arms":
        return TASKS[asked.task], arms(TASKS[asked.task].lookups, ARMS_WIDTH)
    every = partition_arms(asked.d_model)
    counts = [arm.n_heads for arm in every]
    unknown = sorted(set(asked.heads) - set(counts))
    if unknown:
        raise InputError(
            f"{unknown[0]} heads do not divide a width of {asked.d_model}; choose from {', '.join(map(str, counts))}"
        )
    return PARTITION, [arm for arm in every if not asked.heads or arm.n_heads in asked.heads]


def _frame(outcome: Outcome) -> OutcomeFrame:
    mean, low, high = (round(value, 4) for value in (outcome.mean, *outcome.interval))
    solved = outcome.mean >= SOLVED
    return OutcomeFrame(**vars(outcome), event="outcome", average=mean, low=low, high=high, caught_up=solved)


def _rows(task: LookupTask) -> list[LookupRow]:
    """A few rows of the task, token by token."""
    ids, answers = task.rows(SHOWN_ROWS, torch.Generator().manual_seed(7))
    pairs = [[(int(each) // task.n_values, int(each) % task.n_values) for each in row[:-1]] for row in ids]
    asked = task.questions[ids[:, -1] - task.n_keys * task.n_values].tolist()
    return [
        LookupRow(pairs=row, asks=keys, answer=answer)
        for row, keys, answer in zip(pairs, asked, answers.tolist(), strict=True)
    ]
