"""A minute of everything at once; `make soak` runs for thirty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import RISE, Record

ROOT = Path(__file__).parent.parent
MINUTES = float(os.environ.get("HEADSCOPE_SOAK_MINUTES", "1"))


@pytest.mark.soak
def test_memory_stays_flat_and_nothing_is_left_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", str(MINUTES), "--out", str(tmp_path / "soak.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    told = json.loads((tmp_path / "soak.json").read_text(encoding="utf-8"))
    assert all(told["done"][name] for name in ("look", "edit", "export", "scan"))


def test_a_leak_of_a_tenth_is_seen_and_a_noisy_plateau_is_not() -> None:
    noise = [1000 + 8 * (number % 7) for number in range(30)]
    assert Record(memory=[float(one) for one in noise]).rise < 1.01
    assert Record(memory=[one + 5.0 * place for place, one in enumerate(noise)]).rise > RISE
