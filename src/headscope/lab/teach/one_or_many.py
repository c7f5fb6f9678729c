"""Compare one head with many at equal parameters, over several seeds.

Two experiments. *Arms*: k heads against one wide head, one head with more layers, and one head with a bigger FFN, on
tasks with k lookups. *Partition*: one width divided into 1, 2, 4 … heads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupTask, train_all

SOLVED = 0.95
"""A seed, or an arm on average, solves a task from this accuracy on."""

KEYS = LookupTask(name="two keys, two values", kind="keys")
ROLES = LookupTask(name="a subject and its modifier", kind="roles")
PARTITION = LookupTask(name="two keys of eight", kind="keys", n_keys=8)
PARTITION_WIDTH = 16
OTHER_WIDTHS = (8, 32)
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


@dataclass(frozen=True)
class Results:
    """All outcomes, and the budget they were trained with."""

    arms: list[Outcome]
    partition: list[Outcome]
    other_widths: list[Outcome]
    """The partition again, at the other widths that the page offers."""
    budget: Budget
    seeds: int

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Results:
        """Read what ``asdict`` made of them."""
        arms, partition, other = ([Outcome(**row) for row in stored[k]] for k in ("arms", "partition", "other_widths"))
        return cls(arms, partition, other, Budget(**stored["budget"]), stored["seeds"])


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
    """Train every arm with all seeds. ``on_outcome`` is called as each arm finishes."""
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
    return Results.of(json.loads(Path(__file__).with_name("one_or_many.json").read_text(encoding="utf-8")))


def conclusions(results: Results) -> list[str]:
    """Conclusions about the arms, one sentence or two per line; a test checks that the accuracies bear them out."""
    many, wide, deep, ffn = (outcome for outcome in results.arms if outcome.task == KEYS.name)
    single = 100 * math.fsum(wide.parts_right) / len(wide.parts_right)
    return [
        f"{many.arm} find both values {_percent(many)} of the time; {wide.arm} with as many parameters finds both "
        f"{_percent(wide)} of the time (guessing gives {KEYS.chance:.3f}). It gets {single:.0f}% of the single values "
        "right. It can attend to both keys at once, but it returns one average of their values. "
        "This does not show which was asked first.",
        f"Two heads do not always learn to divide the work: {solved(many)} of {len(many.accuracies)} seeds solve the "
        "task. The others had not learned it when training ended.",
        f"Depth can replace heads here: {deep.arm}, reaches {_percent(deep)}. The first layer fetches one value and "
        "the second layer the other, one after the other.",
        f"So can a bigger FFN here: {ffn.arm}, reaches {_percent(ffn)}. The average still contains both tokens, and an "
        "FFN can compare them with the question.",
        "If each value's own token shows which answer it is, every variant solves the task, even one wide head: it "
        "averages two tokens that can be told apart again. So finding two things does not always need two heads; "
        "asking two questions whose answers look alike does.",
    ]


def on_partition(results: Results) -> list[str]:
    """Conclusions about one width divided into 1, 2, 4 … heads; the same test checks them."""
    best = max(results.partition, key=lambda outcome: outcome.mean)
    near = [outcome for outcome in results.partition if outcome.mean >= best.mean - 0.02]
    rivals = [each for each in results.partition if each not in near and each.interval[1] > best.interval[0]]
    last = results.partition[-1]
    return [
        f"This is the first task again, in a narrower model (width {PARTITION_WIDTH}) and with {PARTITION.n_keys} "
        f"keys. All variants have the same number of parameters. The best have {_counts(near)} heads (within 2 points "
        f"of {_percent(best)}); one head reaches {_percent(results.partition[0])}.",
        f"The intervals of {_counts(rivals)} overlap with the best. Runs either solve the task or stay stuck, and "
        f"{results.seeds} of them are too few to rank the counts. How many runs solved it tells more than the mean.",
        f"With {last.n_heads} heads of {last.d_head} number each it is only {_percent(last)}: there are more "
        f"questions, but too few numbers per head to tell {PARTITION.n_keys} keys apart. Heads divide the width; they "
        "do not add to it.",
        "This is the second set-up that we tried. In the first, twice as wide and with fewer keys, narrow heads did "
        "not fail (bench/LOG.md has its numbers). So where scores begin to fall depends on the width and on the number "
        "of keys.",
    ]


def _counts(outcomes: list[Outcome]) -> str:
    return ", ".join(str(outcome.n_heads) for outcome in outcomes)


def solved(outcome: Outcome) -> int:
    """Count the seeds whose accuracy reaches the threshold."""
    return sum(each >= SOLVED for each in outcome.accuracies)


def _percent(outcome: Outcome) -> str:
    return f"{100 * outcome.mean:.0f}%"


RESCUES = Path(__file__).with_name("rescues.json")
RESCUE_WIDTHS = {"wide": 32, "narrow": 8}


_SAYS = {
    "one head": "The row is shared out once. It finds one of the two towns, and guesses the other.",
    "a second head": "Each head fetches one of the towns, and the two stay side by side.",
    "twice as wide": "A wider head has more numbers, but still one set of shares: one average.",
    "another layer": "The second layer asks the second question, one step later.",
    "a bigger FFN": "Every token here carries its name, so the blend still says which town is whose; a network that "
    "also knows the question can pick it apart.",
}


@dataclass(frozen=True)
class _Rescue:
    """One way to help: the accuracy of every run."""

    name: str
    accuracies: list[float]

    @property
    def mean(self) -> float:
        return sum(self.accuracies) / len(self.accuracies)

    @property
    def solved(self) -> int:
        """How many runs learned the task."""
        return sum(accuracy >= SOLVED for accuracy in self.accuracies)

    @property
    def says(self) -> str:
        return _SAYS[self.name]


def rescues(width: str = "wide") -> list[_Rescue]:
    """The results of this release, in a model with room or in a narrow one."""
    stored: dict[str, Any] = json.loads(RESCUES.read_text(encoding="utf-8"))
    return [_Rescue(name, stored[width][name]) for name in _SAYS]
