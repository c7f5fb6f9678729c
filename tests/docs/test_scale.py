"""The numbers in docs/how-to/scale.md are computed here."""

from __future__ import annotations

from pathlib import Path

import torch

from headscope.heads.questions.standard_questions import STANDARD
from headscope.scan.corpus.packing import PackedRows, Piece
from headscope.scan.labels import null_name
from headscope.scan.tally import Tally, TallyLayout

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "scale.md").read_text(encoding="utf-8")


def test_sizes_are_those_of_real_tallies_and_rows() -> None:
    sites = tuple((str(layer), 32) for layer in range(32))
    layout = TallyLayout(sites=sites, questions=STANDARD, nulls=tuple(map(null_name, STANDARD)), context=8192)
    tally = len(Tally.zero(layout).to_bytes())
    shards = -(-(10**9) // 2**23)
    pieces = tuple(Piece(row, start, start + 1024, row, start) for row in range(16) for start in range(0, 8192, 1024))
    rows = len(PackedRows(torch.zeros(16, 8192, dtype=torch.long), pieces).to_bytes()) / (16 * 8192)
    assert f"| one tally | {tally / 1e6:.0f} MB |" in PAGE
    assert f"| packed rows of a billion tokens | {rows:.1f} GB |" in PAGE
    assert f"| shards of 2²³ tokens in a billion | {shards} |" in PAGE
    assert f"| all tallies before they are merged | {tally * shards / 1e9:.1f} GB |" in PAGE


def test_hours_are_tokens_over_speed() -> None:
    for speed in (2_000, 10_000, 25_000):
        hours = [10**9 / speed / workers / 3600 for workers in (1, 8, 32)]
        assert f"| {speed:,} | " + " | ".join(f"{hour:.1f} h" for hour in hours) + " |" in PAGE
    assert 400e12 / (2 * 8e9) == 25_000
