"""Compare one head with many at equal parameters, over several seeds.

Two experiments. *Arms*: k heads against one wide head, one head with more layers, and one head with a bigger FFN, on
tasks with k lookups. *Partition*: one width divided into 1, 2, 4 … heads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupTask
from headscope.lab.teach.stacked_seeds import train_all

SCHEMA_VERSION = 1
SOLVED = 0.95
"""A seed, or an arm on average, solves a task from this accuracy on."""

KEYS = LookupTask(name="two keys, two values", kind="keys")
ROLES = LookupTask(name="a subject and its modifier", kind="roles")
PARTITION = LookupTask(name="two keys of eight", kind="keys", n_keys=8)
PARTITION_WIDTH = 16
"""The partition has a narrower model and more keys, so that heads of d_head 1 can fail."""

# Student's t, two-sided 95 %, by degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Outcome:
    """One arm on one task: accuracy of each seed, and their mean with a 95 % interval."""

    task: str
    arm: str
    n_heads: int
    d_head: int
    n_layers: int
    d_ff: int
    n_parameters: int
    accuracies: list[float]
    parts_right: list[float]

    @property
    def mean(self) -> float:
        return math.fsum(self.accuracies) / len(self.accuracies)

    @property
    def interval(self) -> tuple[float, float]:
        """Student's t interval over the seeds, clipped to 0–1; with one seed it is 0–1."""
        count = len(self.accuracies)
        if count < 2:
            return 0.0, 1.0
        std = math.sqrt(math.fsum((each - self.mean) ** 2 for each in self.accuracies) / (count - 1))
        half = _T95[min(count - 2, len(_T95) - 1)] * std / math.sqrt(count)
        return max(0.0, self.mean - half), min(1.0, self.mean + half)

    def to_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return asdict(self) | {"mean": round(self.mean, 4), "low": round(low, 4), "high": round(high, 4)}


@dataclass(frozen=True)
class Results:
    """All outcomes, and the budget they were trained with."""

    arms: list[Outcome]
    partition: list[Outcome]
    budget: Budget
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "seeds": self.seeds,
            "budget": asdict(self.budget),
            "arms": [outcome.to_dict() for outcome in self.arms],
            "partition": [outcome.to_dict() for outcome in self.partition],
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Results:
        if stored.get("schema_version") != SCHEMA_VERSION:
            raise InputError(
                f"these results have schema_version {stored.get('schema_version')}; expected {SCHEMA_VERSION}"
            )
        derived = ("mean", "low", "high")
        arms, partition = (
            [Outcome(**{key: value for key, value in row.items() if key not in derived}) for row in stored[name]]
            for name in ("arms", "partition")
        )
        return cls(arms, partition, Budget(**stored["budget"]), stored["seeds"])


def arms(lookups: int = 2, d_model: int = 32) -> list[Arm]:
    """k heads, and three models of one head with as many parameters."""
    d_head = d_model // lookups
    spare = 4 * d_model * d_model - 4 * d_model * d_head
    return [
        Arm(name=f"{lookups} heads", n_heads=lookups, d_head=d_head),
        Arm(name="one wide head", n_heads=1, d_head=d_model),
        Arm(name="one head, more layers", n_heads=1, d_head=d_head, n_layers=lookups),
        Arm(name="one head, bigger FFN", n_heads=1, d_head=d_head, d_ff=spare // (2 * d_model)),
    ]


def partition_arms(d_model: int = PARTITION_WIDTH) -> list[Arm]:
    """One width divided into 1, 2, 4 … heads."""
    counts = [2**power for power in range(d_model.bit_length()) if 2**power <= d_model]
    return [Arm(name=f"{count} head{'s' * (count > 1)}", n_heads=count, d_head=d_model // count) for count in counts]


OutcomeCallback = Callable[[Outcome], None]


def compare(
    task: LookupTask,
    chosen: Sequence[Arm],
    seeds: int,
    budget: Budget | None = None,
    on_outcome: OutcomeCallback | None = None,
) -> list[Outcome]:
    """Train every arm, its seeds as one batch. ``on_outcome`` is called as each arm finishes."""
    outcomes: list[Outcome] = []
    for arm in chosen:
        outcomes.append(outcome((task, arm, seeds, budget or Budget())))
        if on_outcome is not None:
            on_outcome(outcomes[-1])
    return outcomes


Trial = tuple[LookupTask, Arm, int, Budget]


def outcome(trial: Trial) -> Outcome:
    """Train one arm on one task with several seeds."""
    task, arm, seeds, budget = trial
    if seeds < 1:
        raise InputError(f"seeds={seeds}: give at least 1, and several for an interval")
    runs = train_all(task, arm, range(seeds), budget)
    return Outcome(
        task.name,
        arm.name,
        arm.n_heads,
        arm.d_head,
        arm.n_layers,
        arm.d_ff,
        runs[0].model.n_parameters(),
        [round(run.accuracy, 4) for run in runs],
        [round(run.parts_right, 4) for run in runs],
    )


def stored_results() -> Results:
    """The results of this release, written by ``bench/one_or_many.py``."""
    return Results.from_dict(json.loads(Path(__file__).with_name("one_or_many.json").read_text(encoding="utf-8")))
