"""The page on sharing shows every measured number and a conclusion drawn from it."""

from __future__ import annotations

from typing import Any

import pytest
from docs.generate.sharing import page


def moment(step: int, similarity: float, distance: float = 0.5, loss: float = 1.5) -> dict[str, Any]:
    return {"step": step, "similarity": similarity, "distance": distance, "loss": loss}


def results(end: float = 0.2) -> dict[str, Any]:
    growths = [
        {"start": start, "n_heads": 3, "accuracy": 0.756, "moments": [moment(0, 1.0, 0.0001), moment(99, end)]}
        for start in ("random", "equal", "nudged")
    ]
    removals = [{"removed": [1, 0][:count], "loss": 0.125 + count, "accuracy": 0.9 - count / 10} for count in range(3)]
    groups = [
        {"n_kv_heads": 4, "attention": "MHA", "loss": 0.5, "kv_bytes_per_token": 64},
        {"n_kv_heads": 1, "attention": "MQA", "loss": 2.25, "kv_bytes_per_token": 16},
    ]
    return {"growths": growths, "redundancy": {"n_heads": 8, "spare": 5, "removals": removals}, "groups": groups}


def cells(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]


def test_every_number_is_in_a_row_of_its_table() -> None:
    assert cells(page(results())) == [
        *["| 0 | 1.00 | 1.0e-04 | 1.50 |", "| 99 | 0.20 | 5.0e-01 | 1.50 |"] * 3,
        "| 0 of 8 | 0.12 | 0.900 |",
        "| 1 of 8 | 1.12 | 0.800 |",
        "| 2 of 8 | 2.12 | 0.700 |",
        "| 4 | MHA | 0.50 | 64 |",
        "| 1 | MQA | 2.25 | 16 |",
    ]


@pytest.mark.parametrize(("end", "one"), [(0.2, False), (0.99, False), (0.991, True), (1.0, True)])
def test_heads_that_stay_equal_are_reported_as_one_head(end: float, one: bool) -> None:
    text = page(results(end))
    assert ("They are still one head at 3 times the cost (both values found 76% of the time)" in text) == one
    assert (f"At the end their similarity is {100 * end:.0f}%; both values are found 76%" in text) == (not one)


def test_spare_heads_are_counted() -> None:
    assert "5 of 8 can be removed before accuracy falls by more than one point" in " ".join(page(results()).split())
