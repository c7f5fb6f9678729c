"""Every promise of docs/security.md has a test, and every marked test a promise."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
PAGE = HERE.parents[1] / "docs/security.md"


def test_every_promise_has_a_test_and_every_test_a_promise() -> None:
    *promised, last = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert last == "Not defended"
    held: set[str] = set()
    for file in (file for folder in (HERE, TESTS / "fuzz", TESTS / "attack") for file in folder.glob("test_*.py")):
        held |= set(re.findall(r'mark\.promise\(\s*"([^"]+)"', file.read_text(encoding="utf-8")))
    assert len(promised) >= 12
    assert held == set(promised)
