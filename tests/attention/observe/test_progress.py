"""Long work says how far it is, to those who listen in the same thread and to nobody else."""

from __future__ import annotations

import threading

import pytest
import torch

from headscope.attention.engine import observe
from headscope.attention.pattern import Source, row_maxima
from headscope.attention.progress import listening, tell


def test_an_overview_says_how_many_of_its_rows_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.attention.pattern.BLOCK", 8)
    x = torch.randn(1, 1, 32, 4)
    seen = observe(x, x, x)
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *told: heard.append(told)):
        seen.pooled(0, (16, 16))
    assert heard == [("drawing the pattern", done, 16) for done in (0, 4, 8, 12)]
    seen.pooled(0, (16, 16))
    assert len(heard) == 4


def test_another_thread_does_not_hear() -> None:
    heard: list[int] = []
    with listening(lambda what, done, total: heard.append(done)):
        other = threading.Thread(target=lambda: tell("elsewhere", 1, 2))
        other.start()
        other.join()
        tell("here", 2, 3)
    assert heard == [2]


def test_the_largest_weights_say_how_many_rows_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headscope.attention.pattern.BLOCK", 8)
    x = torch.randn(1, 1, 20, 4)
    seen = observe(x, x, x)
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *told: heard.append(told)):
        row_maxima(Source(seen.q, seen.k, seen.logsumexp, seen.scores), slice(None))
    assert heard == [("finding each row's largest weight", done, 20) for done in (0, 8, 16)]


def test_the_nearest_listener_hears_and_the_outer_one_is_back_even_after_an_error() -> None:
    outer: list[int] = []
    inner: list[int] = []

    def fail(what: str, done: int, total: int) -> None:
        inner.append(done)
        raise RuntimeError(what)

    with listening(lambda what, done, total: outer.append(done)):
        with pytest.raises(RuntimeError, match="inside"), listening(fail):
            tell("inside", 1, 2)
        tell("outer", 2, 2)
    tell("nobody", 3, 3)
    assert (inner, outer) == ([1], [2])
