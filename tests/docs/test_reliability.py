"""docs/reliability.md: every promise names a test or a script that tries it, and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    written = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")}
    named = re.findall(r"`(?:([\w/]+\.py)::)?(test_\w+)`", PAGE)
    assert len(named) > 10
    for file, test in named:
        where = [text for path, text in written.items() if str(path).endswith(file)]
        assert any(f"def {test}(" in text for text in where), f"{file}::{test}"


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| promise"))]
    assert rows
    assert [row for row in rows if "test_" not in row.split("|")[-2] and ".py" not in row.split("|")[-2]] == []
