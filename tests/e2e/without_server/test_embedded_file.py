"""The embedded model as one file: written by the command, opened from the disk without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from headscope import ablate
from headscope.scope import EMBEDDED, Scope
from tests.e2e.reading import at
from tests.e2e.without_server.conftest import watched

TEXT = "My white horse drank at the river. My white horse drank at the"

pytestmark = pytest.mark.skipif(not (EMBEDDED / "config.json").exists(), reason="the embedded model has not been built")


def number(written: str) -> float:
    return float(written.replace("%", "").replace("<", ""))


def test_the_command_writes_one_file_that_computes_what_python_does(
    browser: Browser, scope: Scope, tmp_path: Path
) -> None:
    page_file = tmp_path / "heads.html"
    headscope = [sys.executable, "-c", "from headscope.cli import main; main()"]
    command = [*headscope, "publish", "--one-file", "--out", str(page_file)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(command, capture_output=True, text=True, timeout=500, env=env, check=True)
    assert f"in {page_file}; open it in a browser" in told.stdout.replace("\n", " ")
    look, head = scope.look(TEXT), str(scope.shape.heads()[-1])
    last = len(look.tokens) - 1
    before = look.logits[last].double().softmax(-1)
    with scope.edit(ablate(head)):
        after = scope.look(TEXT).logits[last].double().softmax(-1)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    try:
        page = context.new_page()
        strays = watched(page, page_file.as_uri())
        page.goto(page_file.as_uri() + at(head=head, compare=0, text="A"))
        box = page.get_by_role("textbox", name="Sentence")
        expect(box).to_be_enabled()
        box.fill(TEXT)
        box.press("Enter")
        tokens = page.get_by_role("listbox", name="Tokens").first.get_by_role("option")
        expect(tokens).to_have_count(len(look.tokens))
        tokens.nth(last).click()
        page.get_by_role("switch", name=f"without {head}").click()
        expect(page.locator("[data-without]").first).not_to_have_text("")
        weight, guess, changed = (
            number(page.locator(place).first.inner_text())
            for place in (".inspector .number", "[data-guess]", "[data-without]")
        )
        assert strays == []
    finally:
        context.close()
    best = int(before.argmax())
    assert weight == pytest.approx(float(look.pattern(head)[last].max()), abs=1e-3)
    assert guess / 100 == pytest.approx(float(before[best]), abs=1e-3)
    assert changed / 100 == pytest.approx(float(after[best]), abs=1e-3)
