"""Long work reports its progress to the callback of its own thread, and to no other."""

from __future__ import annotations

import pytest
import torch

from headscope.attention.engine import observe
from headscope.attention.progress import progress_callback, report_progress


def test_pooling_reports_how_many_rows_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.attention.pattern.BLOCK", 8)
    x = torch.randn(1, 1, 32, 4)
    seen = observe(x, x, x)
    reports: list[tuple[str, int, int]] = []
    with progress_callback(lambda *reported: reports.append(reported)):
        seen.pooled(0, (16, 16))
    assert reports == [("drawing the pattern", done, 16) for done in (0, 4, 8, 12)]
    seen.pooled(0, (16, 16))
    assert len(reports) == 4


def test_the_inner_callback_is_called_and_the_outer_one_is_restored_even_after_an_error() -> None:
    outer: list[int] = []
    inner: list[int] = []

    def fail(task: str, done: int, total: int) -> None:
        inner.append(done)
        raise RuntimeError(task)

    with progress_callback(lambda task, done, total: outer.append(done)):
        with pytest.raises(RuntimeError, match="inside"), progress_callback(fail):
            report_progress("inside", 1, 2)
        report_progress("outer", 2, 2)
    report_progress("nobody", 3, 3)
    assert (inner, outer) == ([1], [2])
