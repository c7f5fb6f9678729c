"""Heads with equal weights stay equal, heads with random weights diverge, and spare heads can be ablated."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
import torch
from bench.sharing import (
    Redundancy,
    Removal,
    grow,
    last_patterns,
    make_equal,
    mean_similarity,
    redundancy,
    similarity,
    weight_distance,
)

from headscope.errors import InputError
from headscope.lab.teach.lookup_tasks import Arm, Budget, LookupModel
from headscope.lab.teach.one_or_many import KEYS

QUICK = Budget(steps=150, batch=64, test_rows=256)


def test_similarity_is_the_overlap_of_two_patterns() -> None:
    patterns = torch.tensor([[[1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]]])
    expected = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
    torch.testing.assert_close(similarity(patterns), expected)
    assert mean_similarity(patterns) == pytest.approx(1 / 3)
    assert mean_similarity(patterns[:, :1]) == 1.0


def test_equal_heads_stay_equal_and_nudged_ones_diverge() -> None:
    equal, nudged = grow("equal", budget=QUICK), grow("nudged", budget=QUICK)
    assert all(moment.similarity == pytest.approx(1, abs=1e-4) for moment in equal.moments)
    assert max(moment.distance for moment in equal.moments) < 1e-5
    assert nudged.moments[0].similarity > 0.99
    assert nudged.moments[-1].similarity < 0.8
    assert equal.moments[-1].loss < equal.moments[0].loss
    assert json.loads(json.dumps(asdict(nudged)))["start"] == "nudged"


def test_random_heads_start_apart() -> None:
    model = LookupModel(KEYS, Arm(name="a", n_heads=2, d_head=16), QUICK, 0)
    ids, _ = KEYS.rows(64, torch.Generator().manual_seed(0))
    assert mean_similarity(last_patterns(model, ids)) < 0.9
    make_equal(model)
    assert mean_similarity(last_patterns(model, ids)) == pytest.approx(1)


def test_heads_without_effect_are_ablated_first() -> None:
    model = LookupModel(KEYS, Arm(name="a", n_heads=4, d_head=8), QUICK, 0)
    with torch.no_grad():
        columns = model.body.attention().o_proj.weight.view(32, 4, 8)
        columns[:, 1] = columns[:, 3] = 0
        columns[:, 0] *= 20
    found = redundancy(model, rows=128)
    assert [len(each.removed) for each in found.removals] == [0, 1, 2, 3, 4]
    assert found.removals[0].loss == pytest.approx(_loss(model), abs=1e-3)
    without_effect = {1, 3}
    for each in found.removals[1:]:
        if set(each.removed) <= without_effect:
            assert each.loss == found.removals[0].loss
    assert found.to_dict()["spare"] >= 2


def _loss(model: LookupModel) -> float:
    ids, answers = KEYS.rows(128, torch.Generator().manual_seed(20_011))
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), answers.flatten()))


def test_the_distance_is_the_largest_difference_of_any_query_or_key_weight() -> None:
    model = LookupModel(KEYS, Arm(name="a", n_heads=4, d_head=8), QUICK, 0)
    attention = model.body.attention()
    make_equal(model)
    assert weight_distance(model) == 0
    with torch.no_grad():
        attention.v_proj.weight[20] += 5
        assert weight_distance(model) == 0, "only query and key weights count"
        attention.k_proj.weight[9, 3] -= 0.25
        attention.q_proj.weight[31, 0] += 0.5
    assert weight_distance(model) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("accuracies", "spare"),
    [
        ((0.9, 0.9, 0.5, 0.1), 1),
        ((0.9, 0.891, 0.889, 0.1), 1),
        ((0.9, 0.95, 0.94, 0.93), 3),
        ((0.9, 0.2, 0.9, 0.1), 2),
        ((0.9, 0.5, 0.4, 0.1), 0),
    ],
)
def test_spare_heads_can_be_ablated_before_accuracy_falls_by_more_than_one_point(
    accuracies: tuple[float, ...], spare: int
) -> None:
    removals = [Removal(list(range(count)), 0.0, each) for count, each in enumerate(accuracies)]
    assert Redundancy(3, removals).spare() == spare
    assert Redundancy(3, removals).spare(tolerance=1.0) == 3


def test_each_ablated_head_is_the_one_that_raises_the_loss_least() -> None:
    """Compared with zeroing W_O's columns instead of z."""
    model = LookupModel(KEYS, Arm(name="a", n_heads=3, d_head=8), replace(QUICK, d_model=24), 2)
    found = redundancy(model, rows=128)
    for before, after in pairwise(found.removals):
        left = [head for head in range(3) if head not in before.removed]
        losses = {head: _loss(_with_columns_zeroed(model, [*before.removed, head])) for head in left}
        assert after.removed == [*before.removed, min(left, key=losses.__getitem__)]
        assert after.loss == pytest.approx(min(losses.values()), abs=1e-3)


def _with_columns_zeroed(model: LookupModel, heads: list[int]) -> LookupModel:
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.body.attention().o_proj.weight.view(24, 3, 8)[:, heads] = 0
    return other


def test_bad_input() -> None:
    with pytest.raises(InputError, match="start='twice' is not one of random, equal, nudged"):
        grow("twice")
    with pytest.raises(InputError, match="n_heads=3 with d_model=32: use at least 2 heads, and a divisor"):
        grow("equal", n_heads=3)
    with pytest.raises(InputError, match="n_heads=1 with d_model=32: use at least 2 heads"):
        grow("equal", n_heads=1)
