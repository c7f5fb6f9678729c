"""The conclusions follow from the measured accuracies."""

from __future__ import annotations

import pytest

from headscope.lab.teach.lookup_tasks import Budget
from headscope.lab.teach.one_or_many import KEYS, PARTITION, PARTITION_WIDTH, ROLES, SOLVED, Outcome, Results, arms
from headscope.lab.teach.one_or_many_conclusions import conclusions, on_partition

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


def test_seeds_that_stay_stuck_are_counted() -> None:
    found = results()
    assert not any("no promise" in line for line in conclusions(found))
    found.arms[0] = outcome(KEYS.name, NAMES[0], 1.0, 0.3, 0.96)
    assert any("2 of 3 seeds solve the task" in line for line in conclusions(found))
    found.arms[0] = outcome(KEYS.name, NAMES[0], 0.1, 0.3)
    assert not any("no promise" in line for line in conclusions(found)), "no seed solves it: nothing to share"


@pytest.mark.parametrize(("deep", "ffn"), [(0.99, 0.5), (0.5, 0.99), (0.99, 0.99), (SOLVED, 0.0)])
def test_arms_that_catch_up_and_those_that_do_not(deep: float, ffn: float) -> None:
    said = " ".join(conclusions(results(keys=(1.0, 0.2, deep, ffn))))
    assert ("Depth can stand in for heads here" in said) == (deep >= SOLVED)
    assert ("So can a bigger FFN here" in said) == (ffn >= SOLVED)
    assert said.count("did not catch up in this many steps") == (deep < SOLVED) + (ffn < SOLVED)


@pytest.mark.parametrize("deep", [0.2, 0.99])
def test_an_arm_that_does_not_catch_up_is_named_with_its_accuracy(deep: float) -> None:
    said = " ".join(conclusions(results(keys=(1.0, 0.2, deep, 0.5), roles=(0.5, 0.5, 0.5, 0.5))))
    assert ("Depth can stand in for heads" in said) == (deep > 0.9)
    assert "One head, bigger FFN, reaches 50 %: it did not catch up" in said
    assert "one wide head 50 %" in said


def test_parts_right_and_chance_are_shown_for_the_wide_head() -> None:
    first = conclusions(results())[0]
    assert "find both values 100 % of the time" in first
    assert "20 % (guessing gives 0.016)" in first
    assert "It gets 25 % of the parts right" in first


def test_the_roles_task_is_solved_by_every_arm_or_each_accuracy_is_shown() -> None:
    assert "every arm solves the task, one wide head too" in conclusions(results())[-1]
    shown = conclusions(results(roles=(1.0, 0.9, 1.0, 1.0)))[-1]
    assert shown.endswith(", ".join(f"{name} {score} %" for name, score in zip(NAMES, (100, 90, 100, 100), strict=True)) + ".")  # fmt: skip  # noqa: E501


def test_the_best_partition_those_near_it_and_the_last() -> None:
    lines = on_partition(results(partition=((0.3, 0.3), (0.9, 0.9), (0.89, 0.89), (0.5, 0.5))))
    assert f"(width {PARTITION_WIDTH}) and among {PARTITION.n_keys} keys" in lines[0]
    assert "All have the same number of parameters." in lines[0]
    assert "Best are 2, 4 heads (within 2 points of 90 %); one head reaches 30 %." in lines[0]
    assert lines[1].startswith("At 8 heads of ")
    assert not any("overlap" in line for line in lines)


def test_singular_and_plural_of_numbers_per_head() -> None:
    lines = on_partition(results(partition=((0.9, 0.9), (0.9, 0.9), (0.5, 0.5))))
    assert "At 4 heads of 1 number each it is down to 50 %" in " ".join(lines)
    lines = on_partition(results(partition=((0.3, 0.3), (0.9, 0.9))))
    assert "Even 2 heads of 2 numbers each reach 90 %" in " ".join(lines)


def test_intervals_that_overlap_are_not_ranked() -> None:
    lines = on_partition(results(partition=((0.1, 0.1), (0.9, 0.9), (0.3, 0.9))))
    assert any(line.startswith("The intervals of 4 overlap with the best") and "2 of them" in line for line in lines)
    found = results()
    found.partition[0] = outcome(PARTITION.name, "one", 0.3, 0.3, n_heads=1, n_parameters=1)
    assert "All have the same number" not in on_partition(found)[0]
