"""Long work reports its progress to the callback of its own thread, and to no other."""

from __future__ import annotations

import threading

import pytest
import torch

from headscope.attention.engine import observe
from headscope.attention.pattern import PatternSource, row_maxima
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


def test_another_thread_has_no_callback() -> None:
    reports: list[int] = []
    with progress_callback(lambda task, done, total: reports.append(done)):
        other = threading.Thread(target=lambda: report_progress("elsewhere", 1, 2))
        other.start()
        other.join()
        report_progress("here", 2, 3)
    assert reports == [2]


def test_row_maxima_report_how_many_rows_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.attention.pattern.BLOCK", 8)
    x = torch.randn(1, 1, 20, 4)
    seen = observe(x, x, x)
    reports: list[tuple[str, int, int]] = []
    with progress_callback(lambda *reported: reports.append(reported)):
        row_maxima(PatternSource(seen.q, seen.k, seen.logsumexp, seen.scores), slice(None))
    assert reports == [("finding each row's largest weight", done, 20) for done in (0, 8, 16)]


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
