"""A scan whose sites are observed together after each pass, without a GPU: in Triton's interpreter."""

from __future__ import annotations

from tests.runs.interpreter import run_interpreted


def test_sites_together_give_the_sums_of_sites_one_by_one_in_the_interpreter() -> None:
    run_interpreted("tests/scan/tally/interpreted.py")
