"""Numbers as people type them."""

from __future__ import annotations

import pytest

from headscope.lab.teach.course.questions import means, readings


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("1,200", [1200.0, 1.2]),
        ("1,200.0 heads", [1200.0]),
        ("32 KV heads", [32.0]),
        ("−3", [-3.0]),
        ("0,300", [0.3]),
        ("1.200,5", []),
        ("many", []),
        ("", []),
        ("1e3", []),
        ("3/0", []),
        ("1/2/3", []),
    ],
)
def test_readings(typed: str, meant: list[float]) -> None:
    assert readings(typed) == meant


@pytest.mark.parametrize(
    ("typed", "wanted", "same"),
    [("30", "30 %", True), ("0.3", "30 %", True), ("3", "30 %", False), ("70%", ".30", False), ("many", ".30", None)],
)
def test_per_cent_may_be_left_out(typed: str, wanted: str, same: bool | None) -> None:
    assert means(typed, wanted) is same
