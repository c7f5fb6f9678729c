"""Truncated, altered or made-up files are refused with an error: no crash, no hang, no memory for false sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.opening import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.promise("Damaged files are errors")]

ROOT = Path(__file__).parents[2]
LARGEST = 300_000  # KiB that opening broken files may take beyond opening the whole one


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("broken")
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.opening", str(folder)],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_an_error_and_nothing_worse(told: list[dict[str, Any]], kind: str) -> None:
    mine = [line for line in told if line["kind"] == kind]
    last = [line for line in mine if "outcome" in line][-1]
    status = next(line["status"] for line in mine if "status" in line)
    assert status == 0, f"the process ended with status {status} at {last}"
    assert [line for line in mine if line.get("outcome") == "failed"] == []
    outcomes = Counter(line.get("outcome") for line in mine)
    assert outcomes["begun"] >= 30
    assert outcomes["refused"] >= 1
    assert all(len(line["said"]) > 20 for line in mine if line.get("outcome") == "refused")


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_file_takes_no_memory_that_it_only_claims(told: list[dict[str, Any]], kind: str) -> None:
    assert next(line["grown"] for line in told if line["kind"] == kind and "grown" in line) < LARGEST


def test_many_damaged_files_were_opened(told: list[dict[str, Any]]) -> None:
    assert sum(line.get("outcome") == "begun" for line in told) >= 1_500
