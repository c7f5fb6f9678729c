"""Long work says how far it is, to those who listen in the same thread and to nobody else."""

from __future__ import annotations

import threading

import torch

from headscope.attention.engine import observe
from headscope.attention.progress import listening, tell


def test_an_overview_says_how_many_of_its_rows_are_done(monkeypatch) -> None:
    monkeypatch.setattr("headscope.attention.rectangles.BLOCK", 8)
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
