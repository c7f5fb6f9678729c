"""Promises name tests that are there, and decisions name entries of the log that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("reliability", "security")}
TESTS = {str(file): file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")}


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_and_scripts_exist(page: str) -> None:
    for file, test in re.findall(r"`(?:([\w/]+\.py)::)?(test_\w+)`", PAGES[page]):
        where = [text for path, text in TESTS.items() if path.endswith(file)]
        assert any(f"def {test}(" in text for text in where), f"{file}::{test}"
    for file in re.findall(r"`([\w/]+\.(?:py|json))`", PAGES[page]):
        found = [*(ROOT / "tests").rglob(file), ROOT / file, ROOT / "src" / "headscope" / file]
        assert any(path.exists() for path in found), file


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGES["reliability"].splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| ---", "| promise"))]
    assert len(promises) > 20
    assert [row for row in promises if ".py" not in row.split("|")[-2]] == []


def test_every_decision_has_its_entry_in_the_log() -> None:
    log = (ROOT / "bench" / "LOG.md").read_text(encoding="utf-8")
    _, *decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").split("\n## ")
    for decision in decisions:
        titles = re.findall(r"\*([^*]+)\*", " ".join(decision.split()).partition("Log: ")[2])
        assert titles, decision
        for title in titles:
            assert re.search(rf"^## [\d-]+: {re.escape(title)}$", log, re.MULTILINE), title
