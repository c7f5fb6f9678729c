"""The documentation, opened from the disk in a real browser: it asks nobody for anything, and its search works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

ROOT = Path(__file__).parents[2]


def test_the_site_searches_from_the_disk_without_a_network(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, check=True, env=env, capture_output=True, timeout=500)
    page = browser.new_page()
    strays: list[str] = []
    page.on("request", lambda request: request.url.startswith("file:") or strays.append(request.url))
    page.on("pageerror", lambda error: strays.append(str(error)))
    page.goto((tmp_path / "how-to" / "my-model.html").as_uri())
    found = page.locator(".md-search-result__meta")
    page.get_by_role("textbox", name="Search").click()
    expect(found).to_contain_text("Type to start searching")
    page.keyboard.type("induction")
    expect(found).to_contain_text("matching documents")
    page.locator(".md-search-result__link").first.click()
    expect(page.locator("h1")).to_be_visible()
    assert not strays
    page.close()
