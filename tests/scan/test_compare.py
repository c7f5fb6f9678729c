"""The comparison of two censuses, against their tallies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headscope.heads.questions.label_rules import token_class
from headscope.scan.census import Census
from headscope.scan.compare import compare
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from headscope.scan.shards import Recipe
from headscope.scan.tally import Tally, TallyLayout
from tests.scan.tiny import open_tiny, texts

OPTIONS: dict[str, Any] = {"threads": 1, "context": 48, "examples": 1}


@pytest.fixture(scope="module")
def before() -> Census:
    rules = (token_class("vowels", "[aeiou]"), token_class("stops", "[.;]"))
    return scan(open_tiny(), texts(22), options=ScanOptions(**OPTIONS, replicates=40, rules=rules))


@pytest.fixture(scope="module")
def after() -> Census:
    rules = (token_class("vowels", "[aeiou]"), token_class("digits", "[0-9]"))
    return scan(open_tiny(seed=1), texts(22), options=ScanOptions(**OPTIONS, replicates=30, rules=rules))


def test_a_change_is_the_difference_of_two_rows_and_its_interval_that_of_paired_draws(
    before: Census, after: Census
) -> None:
    found = compare(before, after)
    for change in found.changes:
        assert change.before == pytest.approx(before.row(change.head, change.question).mean)
        assert change.after == pytest.approx(after.row(change.head, change.question).mean)
        assert change.difference == pytest.approx(change.after - change.before)
        column = before.heads().index(change.head)
        draws = []
        for replicate in range(30):
            one, two = (
                each.tally.replicate_means()[replicate, each.layout.quantities.index(change.question), column]
                for each in (before, after)
            )
            draws.append(float(two - one))
        drawn = torch.tensor([draw for draw in draws if draw == draw], dtype=torch.float64)
        assert change.low == pytest.approx(float(drawn.quantile(0.025)), abs=1e-5)
        assert change.high == pytest.approx(float(drawn.quantile(0.975)), abs=1e-5)
        assert change.clear == (change.low > 0 or change.high < 0)


@pytest.mark.parametrize(
    ("corpus", "title"),
    [
        ([{"file": "wiki.txt", "bytes": 9}], "tiny on wiki.txt"),
        ([{"file": "a", "bytes": 9}, {"file": "b", "bytes": 9}], "tiny on 2 files"),
        ([{"stream": "standard input"}], "tiny on standard input"),
        ([{"dataset": "Dataset"}], "tiny on Dataset"),
        ([{"texts": 22, "sha256": "x"}], "tiny on 22 texts"),
        ([{"texts": 1, "sha256": "x"}], "tiny on 1 text"),
    ],
)
def test_each_census_is_named_by_its_model_and_corpus(before: Census, corpus: list[dict[str, Any]], title: str) -> None:
    named = Census(before.tally, Recipe(before.recipe.data | {"corpus": corpus}))
    assert compare(named, before).names == (title, "tiny on 22 texts")


def reached(*sites: int) -> Census:
    """A census of three sites with two, one and two heads, of which these were reached."""
    layout = TallyLayout(sites=(("0", 2), ("1", 1), ("2", 2)), questions=("first",), replicates=3, examples=1)
    tally = Tally.zero(layout)
    for part in (tally.sums, tally.drawn_sums):
        part += torch.rand(part.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(sites)))
    for part in (tally.count, tally.drawn_count):
        part[..., list(sites)] += 4
    nothing = tally.head_counts() == 0
    tally.sums[nothing], tally.drawn_sums[:, nothing] = 0, 0
    return Census(tally, Recipe({"model": {"name": "m"}, "corpus": [{"texts": 1}]}))


def test_only_heads_that_both_censuses_reached_are_compared() -> None:
    found = {str(change.head) for change in compare(reached(0, 1), reached(1, 2)).changes}
    assert found == {"1.0"}
    assert len(compare(reached(0, 1, 2), reached(0, 2)).of("first")) == 4
