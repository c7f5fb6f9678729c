"""The census that ships is the one its script makes of the shipped weights."""

from __future__ import annotations

import pytest
import torch

import headscope
from bench import census as script
from headscope.app.pages.census import SHIPPED
from headscope.scan.census import Census

SMALL = 300_000


def test_the_shipped_census_is_small_and_says_how_it_was_made():
    assert SHIPPED.stat().st_size < SMALL
    assert script.GENERATED.encode() in SHIPPED.read_bytes()[-200:]


@pytest.mark.slow
def test_the_shipped_census_is_the_scripts_own():
    shipped = Census.load(SHIPPED)
    with headscope.load() as scope:
        made = script.scan(scope)
    for part in ("model", "corpus", "packing", "questions", "replicates", "examples", "seed"):
        assert shipped.recipe.data[part] == made.recipe.data[part], part
    # sums of floating-point numbers depend on the processor and on versions; over 10,000 queries the means hardly do
    torch.testing.assert_close(shipped.tally.means(), made.tally.means(), atol=1e-4, rtol=1e-3, equal_nan=True)


@pytest.mark.parametrize(("question", "head"), [("previous", "4.3"), ("induction", "5.6"), ("duplicate", "1.0")])
def test_the_heads_that_lead_in_it_are_those_the_course_names(question: str, head: str):
    assert str(Census.load(SHIPPED).top(question, 1)[0].head) == head
