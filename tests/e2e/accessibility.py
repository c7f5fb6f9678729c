"""What axe-core finds wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"


def serious_violations(page: Page) -> list[tuple[str, str]]:
    """The rules that are seriously or critically violated, each with the first element; skips where axe is absent."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci in web/")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [(rule["id"], rule["nodes"][0]["html"][:160]) for rule in found if rule["impact"] in ("serious", "critical")]
