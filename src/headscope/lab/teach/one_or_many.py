"""One head or many: the same parameters spent in different ways, several seeds each, and what came out.

Two experiments. *Arms*: k heads against one wide head, one head with more layers, and one head with a bigger FFN, on
tasks that ask for k things at once. *Partition*: one width, cut into 1, 2, 4 … heads.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, Task
from headscope.lab.teach.stacked_seeds import train_all

SCHEMA_VERSION = 1
CAUGHT_UP = 0.95
"""An arm has caught up when its mean accuracy is at least this."""

KEYS = Task(name="two keys, two values", kind="keys")
ROLES = Task(name="a subject and its modifier", kind="roles")
CUT = Task(name="two keys of eight", kind="keys", n_keys=8)
CUT_WIDTH = 16
"""The partition is made in a narrower model with more keys, where heads of one number can run short."""

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
        """Student's interval over the seeds, kept within 0 and 1; one seed says nothing about others."""
        count = len(self.accuracies)
        if count < 2:
            return 0.0, 1.0
        spread = math.sqrt(math.fsum((each - self.mean) ** 2 for each in self.accuracies) / (count - 1))
        reach = _T95[min(count - 2, len(_T95) - 1)] * spread / math.sqrt(count)
        return max(0.0, self.mean - reach), min(1.0, self.mean + reach)

    def to_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return asdict(self) | {"mean": round(self.mean, 4), "low": round(low, 4), "high": round(high, 4)}


@dataclass(frozen=True)
class Results:
    """Everything that was measured, and how."""

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

    def of(self, task: str, arm: str) -> Outcome:
        """The outcome of one arm on one task."""
        found = [outcome for outcome in self.arms if (outcome.task, outcome.arm) == (task, arm)]
        if not found:
            known = sorted({f"{outcome.task}: {outcome.arm}" for outcome in self.arms})
            raise InputError(f"there is no outcome for {task}: {arm}; there are {'; '.join(known)}")
        return found[0]


def arms(lookups: int = 2, d_model: int = 32) -> list[Arm]:
    """k heads, and three ways to give their parameters to one head."""
    d_head = d_model // lookups
    spare = 4 * d_model * d_model - 4 * d_model * d_head
    return [
        Arm(name=f"{lookups} heads", n_heads=lookups, d_head=d_head),
        Arm(name="one wide head", n_heads=1, d_head=d_model),
        Arm(name="one head, more layers", n_heads=1, d_head=d_head, n_layers=lookups),
        Arm(name="one head, bigger FFN", n_heads=1, d_head=d_head, d_ff=spare // (2 * d_model)),
    ]


def partition_arms(d_model: int = CUT_WIDTH) -> list[Arm]:
    """One width cut into 1, 2, 4 … heads."""
    counts = [2**power for power in range(d_model.bit_length()) if 2**power <= d_model]
    return [Arm(name=f"{count} head{'s' * (count > 1)}", n_heads=count, d_head=d_model // count) for count in counts]


Told = Callable[[Outcome], None]


def compare(
    task: Task, ways: Sequence[Arm], seeds: int, budget: Budget | None = None, on_outcome: Told | None = None
) -> list[Outcome]:
    """Train every arm, its seeds as one batch. ``on_outcome`` is told of each arm as it is finished."""
    return _compared([(task, arm, seeds, budget or Budget()) for arm in ways], on_outcome, 1)


def one_or_many(
    seeds: int = 5, budget: Budget | None = None, on_outcome: Told | None = None, workers: int = 1
) -> Results:
    """Both experiments, whole; ``workers`` processes share the arms, and their number changes no result."""
    budget = budget or Budget()
    ways = arms(KEYS.lookups, budget.d_model)
    trials = [(task, arm, seeds, budget) for task in (KEYS, ROLES) for arm in ways]
    outcomes = _compared(trials + _cuts(seeds, budget), on_outcome, workers)
    return Results(outcomes[: len(trials)], outcomes[len(trials) :], budget, seeds)


def partition(seeds: int = 5, budget: Budget | None = None, on_outcome: Told | None = None) -> list[Outcome]:
    """One width, cut in every way there is."""
    return _compared(_cuts(seeds, budget or Budget()), on_outcome, 1)


Trial = tuple[Task, Arm, int, Budget]


def _cuts(seeds: int, budget: Budget) -> list[Trial]:
    return [(CUT, arm, seeds, replace(budget, d_model=CUT_WIDTH)) for arm in partition_arms()]


def _compared(trials: Sequence[Trial], on_outcome: Told | None, workers: int) -> list[Outcome]:
    """Every trial's outcome, in order, and told in order."""
    if workers < 1:
        raise InputError(f"workers={workers}: at least one process is needed")
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        if workers == 1:
            made: Iterator[Outcome] = map(_outcome, trials)
        else:
            fresh = multiprocessing.get_context("spawn")  # a fork would inherit threads that torch has started
            made = stack.enter_context(ProcessPoolExecutor(workers, fresh)).map(_outcome, trials)
        for outcome in made:
            outcomes.append(outcome)
            if on_outcome is not None:
                on_outcome(outcome)
    return outcomes


def _outcome(trial: Trial) -> Outcome:
    task, arm, seeds, budget = trial
    if seeds < 1:
        raise InputError(f"seeds={seeds}: at least one run is needed, and several to say how sure one is")
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
    """What was measured for this release; ``bench/one_or_many.py`` writes it."""
    return Results.from_dict(json.loads(Path(__file__).with_name("one_or_many.json").read_text(encoding="utf-8")))
