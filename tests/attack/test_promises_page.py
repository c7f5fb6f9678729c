"""Every test that docs/reliability.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/reliability.md"


def test_every_promise_names_tests_that_are_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = list(TESTS.rglob("test_*.py"))
    defined = {name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))}
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page))
    assert set(re.findall(r"\b(test_\w+\.py)\b", page)) <= {file.name for file in files}
    assert len(named) > 20
    assert named <= defined


def test_every_row_of_promises_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]
    assert len(promises) > 20
    assert [row for row in promises if "test_" not in row and "bench/floors.py" not in row] == []
