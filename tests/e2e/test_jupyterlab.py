"""A real JupyterLab: a cell that ends in a look shows the microscope, and the kernel answers a click."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from headscope.app.server import HOST, listen
from headscope.scope import Scope
from tests.e2e.conftest import PATIENCE

pytestmark = pytest.mark.skipif(find_spec("jupyterlab") is None, reason="no JupyterLab here: pip install jupyterlab")

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
CELL = f"import headscope\nheadscope.load().look({TEXT!r})"
OPTIONS = ["--no-browser", "--allow-root", "--IdentityProvider.token=", "--LabApp.extension_manager=readonly"]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a notebook that has one cell."""
    cell = {"cell_type": "code", "id": "look", "metadata": {}, "source": CELL, "outputs": [], "execution_count": None}
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}, "cells": [cell]}
    (tmp_path / "look.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with listen() as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={port}", f"--ServerApp.root_dir={tmp_path}"]
    home = {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **home}, stdout=log, stderr=log)
    try:
        _wait_for(f"http://{HOST}:{port}/api", server)
        yield f"http://{HOST}:{port}/lab/tree/look.ipynb"
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(PATIENCE // 200):
        assert server.poll() is None, "JupyterLab ended at once"
        try:
            if httpx.get(address, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError("JupyterLab did not start")


def test_jupyterlab_shows_a_look_and_answers_a_click(browser: Browser, lab: str, scope: Scope):
    if scope.shape.name != "embedded":
        pytest.skip("the embedded model has not been built")
    page = browser.new_page(viewport={"width": 1900, "height": 1100})
    page.set_default_timeout(PATIENCE)
    page.goto(lab)
    # a cell that is run before its kernel is there is not run at all
    expect(page.get_by_role("button", name="Python 3 (ipykernel) | Idle")).to_be_visible()
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    frame = page.frame_locator("iframe[title^='headscope']")
    expect(frame.get_by_role("application", name="Pattern of head")).to_be_visible()
    look = scope.look(TEXT)
    words = frame.get_by_role("listbox", name="Tokens").get_by_role("option")
    expect(words).to_have_count(len(look.tokens))
    words.nth(13).click()
    head = frame.get_by_role("heading", name=re.compile("^Head ")).inner_text().split()[-1]
    top = float(look.weights(head)[13].max())
    expect(frame.locator(".inspector .number").first).to_have_text(f"{top:.3f}".removeprefix("0"))
    guess = look.predictions(13)[0].token.text.strip()
    expect(frame.get_by_role("region", name="Next token")).to_contain_text(guess)
    page.close()
