"""One head or many: the package holds the committed results, and a small rerun finds the same order."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from headscope.lab.teach.lookup_tasks import Budget, train_all
from headscope.lab.teach.one_or_many import (
    KEYS,
    Outcome,
    Results,
    arms,
    partition_arms,
    stored_results,
)

ROOT = Path(__file__).parents[3]


def test_the_package_holds_the_committed_results() -> None:
    stored = json.loads((ROOT / "bench/results/one-or-many.json").read_text(encoding="utf-8"))
    results = Results.of(stored)
    assert stored_results() == results
    assert results.seeds >= 5
    assert stored["machine"]["torch"]


@pytest.mark.slow
def test_a_small_rerun_finds_the_same_order() -> None:
    results = stored_results()
    many, wide, deep, _ = arms()
    budget = Budget(steps=450, test_rows=512)
    rerun = {arm.name: train_all(KEYS, arm, [0], budget)[0].accuracy for arm in (many, wide)}
    assert rerun[many.name] > rerun[wide.name] + 0.2
    means = {each.arm: each.mean for each in results.arms if each.task == KEYS.name}
    assert means[many.name] > means[wide.name] + 0.2
    assert means[deep.name] > means[wide.name]


def test_arms_have_about_the_same_number_of_parameters() -> None:
    for outcome in stored_results().arms:
        first = next(each for each in stored_results().arms if each.task == outcome.task)
        assert outcome.n_parameters == pytest.approx(first.n_parameters, rel=0.02)
    assert [(arm.n_heads, arm.d_head) for arm in partition_arms(8)] == [(1, 8), (2, 4), (4, 2), (8, 1)]


def outcome(task: str, arm: str, *accuracies: float) -> Outcome:
    return Outcome(task, arm, 2, 16, 1, 0, 100, list(accuracies), list(accuracies))


@pytest.mark.parametrize(
    ("count", "t"), [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (6, 2.571), (8, 2.365), (10, 2.262), (30, 2.262)]
)
def test_an_interval_is_the_mean_and_students_t_times_the_standard_error(count: int, t: float) -> None:
    """Past ten seeds t is kept at ten's: a little wider than it need be, never narrower."""
    scores = [0.5 + 0.001 * (-1) ** number for number in range(count)]
    low, high = outcome("t", "a", *scores).interval
    mean, error = statistics.fmean(scores), statistics.stdev(scores) / count**0.5
    assert (low, high) == pytest.approx((mean - t * error, mean + t * error), abs=1e-9)


@pytest.mark.parametrize("lookups", [2, 4])
@pytest.mark.parametrize("d_model", [16, 32, 64])
def test_no_arm_has_more_attention_and_ffn_parameters_than_the_heads(lookups: int, d_model: int) -> None:
    many, *rest = arms(lookups, d_model)
    assert (many.n_heads, many.n_heads * many.d_head) == (lookups, d_model)
    for arm in rest:
        spent = arm.n_layers * 4 * d_model * arm.n_heads * arm.d_head + 2 * d_model * arm.d_ff
        assert spent == 4 * d_model * d_model, arm.name
        assert arm.n_heads == 1
