"""One head or many: the package holds the committed results, and a small rerun finds the same order."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Budget, LookupTask
from headscope.lab.teach.one_or_many import (
    KEYS,
    PARTITION,
    PARTITION_WIDTH,
    ROLES,
    Outcome,
    Results,
    arms,
    compare,
    one_or_many,
    partition,
    partition_arms,
    stored_results,
)
from headscope.lab.teach.stacked_seeds import train_all

ROOT = Path(__file__).parents[3]


def test_the_package_holds_the_committed_results() -> None:
    stored = json.loads((ROOT / "bench/results/one-or-many.json").read_text(encoding="utf-8"))
    results = Results.from_dict(stored)
    assert stored_results() == results
    assert results.seeds >= 5
    assert stored["machine"]["torch"]


def test_a_small_rerun_finds_the_same_order() -> None:
    results = stored_results()
    many, wide, deep, _ = arms()
    budget = Budget(steps=450, test_rows=512)
    rerun = {arm.name: train_all(KEYS, arm, [0], budget)[0].accuracy for arm in (many, wide)}
    assert rerun[many.name] > rerun[wide.name] + 0.2
    assert results.of(KEYS.name, many.name).mean > results.of(KEYS.name, wide.name).mean + 0.2
    assert results.of(KEYS.name, deep.name).mean > results.of(KEYS.name, wide.name).mean


def test_arms_have_about_the_same_number_of_parameters() -> None:
    for outcome in stored_results().arms:
        first = next(each for each in stored_results().arms if each.task == outcome.task)
        assert outcome.n_parameters == pytest.approx(first.n_parameters, rel=0.02)
    assert [(arm.n_heads, arm.d_head) for arm in partition_arms(8)] == [(1, 8), (2, 4), (4, 2), (8, 1)]


def test_answers_are_the_values_of_the_named_keys() -> None:
    for task in (KEYS, ROLES, LookupTask(name="three", kind="keys", lookups=3, n_keys=5)):
        ids, answers = task.rows(20, torch.Generator().manual_seed(0))
        assert ids.shape == (20, task.context)
        assert int(ids.max()) < task.vocabulary
        for row, wanted in zip(ids, answers, strict=True):
            held = {int(token) // task.n_values: int(token) % task.n_values for token in row[:-1]}
            asked = task.questions[int(row[-1]) - task.n_keys * task.n_values]
            assert [held[int(key)] for key in asked] == wanted.tolist()


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


def test_results_round_trip_through_json() -> None:
    made = Results([outcome("t", "a", 0.25, 0.75)], [outcome("t", "b", 1.0)], Budget(steps=7), 2)
    sent = json.loads(json.dumps(made.to_dict()))
    assert Results.from_dict(sent) == made
    assert (sent["arms"][0]["mean"], sent["arms"][0]["low"], sent["arms"][0]["high"]) == (0.5, 0.0, 1.0)
    assert made.of("t", "a") is made.arms[0]


def test_both_experiments_report_their_outcomes_in_order() -> None:
    reported: list[Outcome] = []
    made = one_or_many(1, Budget(d_model=8, steps=1, batch=4, test_rows=8), reported.append)
    assert reported == [*made.arms, *made.partition]
    assert [each.task for each in made.arms] == [KEYS.name] * 4 + [ROLES.name] * 4
    assert [each.arm for each in made.arms] == [arm.name for arm in arms(2, 8)] * 2
    assert [(each.task, each.n_heads, each.d_head) for each in made.partition] == [
        (PARTITION.name, count, PARTITION_WIDTH // count) for count in (1, 2, 4, 8, 16)
    ]
    assert len({each.n_parameters for each in made.partition}) == 1
    assert partition(1, Budget(d_model=8, steps=1, batch=4, test_rows=8)) == made.partition


def test_intervals_are_clipped_to_zero_and_one() -> None:
    assert outcome("t", "a", 0.4, 0.5, 0.6).interval == pytest.approx((0.2516, 0.7484), abs=1e-3)
    assert outcome("t", "a", 0.9, 1.0).interval == (pytest.approx(0.3147, abs=1e-4), 1.0)
    assert outcome("t", "a", 0.9).interval == (0.0, 1.0)
    assert outcome("t", "a", 1.0, 1.0).interval == (1.0, 1.0)


def test_workers_change_no_result() -> None:
    tiny = Budget(d_model=8, steps=3, batch=4, test_rows=8)
    assert one_or_many(2, tiny, workers=2) == one_or_many(2, tiny)


def test_progress_and_bad_input() -> None:
    reported: list[Outcome] = []
    tiny = Budget(d_model=8, steps=2, batch=4, test_rows=8)
    made = compare(ROLES, partition_arms(8)[:2], 2, tiny, reported.append)
    assert reported == made
    assert json.dumps(made[0].to_dict())
    with pytest.raises(InputError, match="seeds=0: give at least 1, and several"):
        compare(ROLES, partition_arms(8), 0, tiny)
    with pytest.raises(InputError, match="workers=0: give at least 1"):
        one_or_many(1, tiny, workers=0)
    with pytest.raises(InputError, match="lookups=9, n_keys=6, n_values=8: use 1 to n_keys lookups"):
        LookupTask(name="t", kind="keys", lookups=9)
    with pytest.raises(InputError, match="these results have schema_version 99; expected 1"):
        Results.from_dict({"schema_version": 99})
    with pytest.raises(InputError, match="there is no outcome for keys: none; there are"):
        stored_results().of("keys", "none")
