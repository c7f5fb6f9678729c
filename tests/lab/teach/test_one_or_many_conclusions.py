"""The conclusions follow from the measured accuracies."""

from __future__ import annotations

import pytest

from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import (
    KEYS,
    PARTITION,
    ROLES,
    SOLVED,
    Outcome,
    Results,
    arms,
    conclusions,
    on_partition,
)

NAMES = [arm.name for arm in arms()]


def outcome(task: str, arm: str, *accuracies: float, **sizes: int) -> Outcome:
    given = {"n_heads": 2, "d_head": 16, "n_layers": 1, "d_ff": 0, "n_parameters": 4321} | sizes
    return Outcome(task, arm, **given, accuracies=list(accuracies), parts_right=[0.25] * len(accuracies))


def results(
    keys: tuple[float, ...] = (1.0, 0.2, 0.99, 0.5),
    roles: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0),
    partition: tuple[tuple[float, ...], ...] = ((0.3, 0.3), (0.9, 0.9), (0.5, 0.5)),
) -> Results:
    rows = [outcome(KEYS.name, name, score, score) for name, score in zip(NAMES, keys, strict=True)]
    rows += [outcome(ROLES.name, name, score, score) for name, score in zip(NAMES, roles, strict=True)]
    cut = [outcome(PARTITION.name, f"{2**n} heads", *scores, n_heads=2**n, d_head=4 // 2**n) for n, scores in enumerate(partition)]  # fmt: skip  # noqa: E501
    return Results(rows, cut, Budget(), 2)


@pytest.mark.parametrize(("deep", "ffn"), [(0.99, 0.5), (0.5, 0.99), (0.99, 0.99), (SOLVED, 0.0)])
def test_arms_that_catch_up_and_those_that_do_not(deep: float, ffn: float) -> None:
    said = " ".join(conclusions(results(keys=(1.0, 0.2, deep, ffn))))
    assert ("Depth can replace heads here" in said) == (deep >= SOLVED)
    assert ("So can a bigger FFN here" in said) == (ffn >= SOLVED)
    assert said.count("did not catch up in this many steps") == (deep < SOLVED) + (ffn < SOLVED)


def test_intervals_that_overlap_are_not_ranked() -> None:
    lines = on_partition(results(partition=((0.1, 0.1), (0.9, 0.9), (0.3, 0.9))))
    assert any(line.startswith("The intervals of 4 overlap with the best") and "2 of them" in line for line in lines)
    found = results()
    found.partition[0] = outcome(PARTITION.name, "one", 0.3, 0.3, n_heads=1, n_parameters=1)
    assert "All variants have the same number" not in on_partition(found)[0]
