"""The bar of a scan, and what is told to who listens."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from headscope.attention.progress import progress_callback
from headscope.scan.progress import progress_bar


@pytest.mark.parametrize("known", [True, False])
def test_the_bar_says_how_far_a_scan_is_how_fast_and_how_long_it_took(capsys, monkeypatch, known: bool) -> None:
    clock = [100.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")
    totals = [2_000 if known else None]
    with progress_bar("Measuring", lambda: totals[0], True, unit="bytes") as advance:
        clock[0] += 2
        advance(500)
        clock[0] += 2
        totals[0] = 2_000
        advance(1_500)
    shown = capsys.readouterr().err
    assert re.search(r"Measuring \S+ 2,000 of 2,000 bytes, 500 bytes per second 00:04\s", shown), shown


def test_without_a_total_the_bar_says_what_is_done(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("Reading", None, True) as advance:
        clock[0] += 4
        advance(1_200)
    assert re.search(r"Reading .* 1,200 tokens, 300 tokens per second", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("total", "told"), [(10, [("scanning", 6, 10), ("scanning", 10, 10), ("scanning", 10, 10)]), (None, [])]
)
def test_who_listens_is_told_of_tokens_done_and_no_more_than_there_are(total: int | None, told: list[Any]) -> None:
    heard: list[tuple[str, int, int]] = []
    with progress_callback(lambda *said: heard.append(said)), progress_bar("Scanning", total, True) as advance:
        for tokens in (6, 4, 2):
            advance(tokens)
    assert heard == told


@pytest.mark.parametrize(
    ("shown", "terminal", "drawn"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_a_bar_is_drawn_in_a_terminal_unless_said(capsys, monkeypatch, shown, terminal: bool, drawn: bool) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress_bar("Scanning", 2, shown) as advance:
        advance(2)
    assert bool(capsys.readouterr().err) is drawn
