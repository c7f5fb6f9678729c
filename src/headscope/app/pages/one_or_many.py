"""One head or many: what was measured for this release, and a small version run while a person watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from headscope.app.pages import schema_lab as lab
from headscope.app.pages.four_heads import Tell
from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, Task
from headscope.lab.teach.one_or_many import (
    KEYS,
    PARTITION,
    PARTITION_WIDTH,
    ROLES,
    SOLVED,
    Outcome,
    arms,
    compare,
    partition_arms,
    stored_results,
)
from headscope.lab.teach.one_or_many_conclusions import conclusions, on_partition

SHOWN_ROWS = 6
TASKS = (KEYS, ROLES)
ARMS_WIDTH = Budget().d_model


def results() -> lab.ResultsCard:
    """The committed results."""
    stored = stored_results()
    return lab.ResultsCard(
        seeds=stored.seeds,
        steps=stored.budget.steps,
        d_model=stored.budget.d_model,
        tasks=[task.name for task in TASKS],
        chance=KEYS.chance,
        arms=[_card(outcome) for outcome in stored.arms],
        partition=[_card(outcome) for outcome in stored.partition],
        partition_width=PARTITION_WIDTH,
        partition_keys=PARTITION.n_keys,
        conclusions=conclusions(stored),
        on_partition=on_partition(stored),
        rows=_rows(KEYS),
    )


def run(asked: lab.RunRequest, tell: Tell) -> None:
    """Train the arms one after the other, and tell of each."""
    task, ways = _plan(asked)
    tell(lab.RunBegun(arms=[way.name for way in ways]), {})
    width = ARMS_WIDTH if asked.experiment == "arms" else asked.d_model
    budget = Budget(d_model=width, steps=asked.steps)
    compare(task, ways, asked.seeds, budget, lambda outcome: tell(_card(outcome), {}))


def _plan(asked: lab.RunRequest) -> tuple[Task, Sequence[Arm]]:
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


def _card(outcome: Outcome) -> lab.OutcomeCard:
    told: dict[str, Any] = outcome.to_dict()
    return lab.OutcomeCard(**told, caught_up=outcome.mean >= SOLVED)


def _rows(task: Task) -> list[lab.LookupRow]:
    """A few rows of the task, taken apart."""
    ids, answers = task.rows(SHOWN_ROWS, torch.Generator().manual_seed(7))
    pairs = [[(int(each) // task.n_values, int(each) % task.n_values) for each in row[:-1]] for row in ids]
    asked = task.questions[ids[:, -1] - task.n_keys * task.n_values].tolist()
    return [
        lab.LookupRow(pairs=row, asks=keys, answer=answer)
        for row, keys, answer in zip(pairs, asked, answers.tolist(), strict=True)
    ]
