"""Heads started equal stay equal, heads started at random part ways, and spare heads can go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.lookups import Arm, Budget, Finder
from headscope.lab.one_or_many import KEYS
from headscope.lab.sharing import grow, last_patterns, make_equal, mean_similarity, redundancy, similarity
from headscope.lab.sharing_page import page

QUICK = Budget(steps=150, batch=64, test_rows=256)


def test_similarity_is_what_two_heads_share() -> None:
    patterns = torch.tensor([[[1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]]])
    expected = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
    torch.testing.assert_close(similarity(patterns), expected)
    assert mean_similarity(patterns) == pytest.approx(1 / 3)
    assert mean_similarity(patterns[:, :1]) == 1.0


def test_equal_heads_stay_equal_and_nudged_ones_part() -> None:
    equal, nudged = grow("equal", budget=QUICK), grow("nudged", budget=QUICK)
    assert all(moment.similarity == pytest.approx(1, abs=1e-4) for moment in equal.moments)
    assert max(moment.distance for moment in equal.moments) < 1e-5
    assert nudged.moments[0].similarity > 0.99
    assert nudged.moments[-1].similarity < 0.8
    assert equal.moments[-1].loss < equal.moments[0].loss
    assert json.loads(json.dumps(nudged.to_dict()))["start"] == "nudged"


def test_random_heads_start_apart() -> None:
    model = Finder(KEYS, Arm(name="a", n_heads=2, d_head=16), QUICK, 0)
    ids, _ = KEYS.rows(64, torch.Generator().manual_seed(0))
    assert mean_similarity(last_patterns(model, ids)) < 0.9
    make_equal(model)
    assert mean_similarity(last_patterns(model, ids)) == pytest.approx(1)


def test_heads_that_do_nothing_are_the_first_to_go() -> None:
    model = Finder(KEYS, Arm(name="a", n_heads=4, d_head=8), QUICK, 0)
    with torch.no_grad():
        columns = model.body.attention().o_proj.weight.view(32, 4, 8)
        columns[:, 1] = columns[:, 3] = 0
        columns[:, 0] *= 20
    found = redundancy(model, rows=128)
    assert [len(each.removed) for each in found.removals] == [0, 1, 2, 3, 4]
    assert found.removals[0].loss == pytest.approx(_loss(model), abs=1e-3)
    silent = {1, 3}
    for each in found.removals[1:]:
        if set(each.removed) <= silent:
            assert each.loss == found.removals[0].loss
    assert found.to_dict()["spare"] >= 2


def _loss(model: Finder) -> float:
    ids, answers = KEYS.rows(128, torch.Generator().manual_seed(20_011))
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), answers.flatten()))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="heads cannot start 'twice'; they start random, equal, nudged"):
        grow("twice")
    with pytest.raises(InputError, match="3 heads in a width of 32: use at least 2, and a divisor"):
        grow("equal", n_heads=3)


def test_the_page_follows_from_the_committed_results() -> None:
    root = Path(__file__).parents[2]
    results = json.loads((root / "bench/results/sharing.json").read_text(encoding="utf-8"))
    assert (root / "docs/sharing.md").read_text(encoding="utf-8") == page(results)
    ends = {growth["start"]: growth["moments"][-1]["similarity"] for growth in results["growths"]}
    assert ends["equal"] > 0.99 > ends["nudged"]
    assert ends["random"] < 0.5
