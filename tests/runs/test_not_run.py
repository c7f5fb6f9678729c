"""The last lines of a test run say which tests were not run, and how to run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.browser
def test_a_page(): ...

@pytest.mark.browser
def test_another_page(): ...

@pytest.mark.skip(reason="no compiler; on Debian: apt-get install g++")
def test_compiled(): ...

def test_sum(): assert 1 + 1 == 2
"""


def test_the_last_lines_say_what_was_not_run_and_how_to_run_it(tmp_path: Path) -> None:
    """With workers, as `make test` runs them, and without a browser on PATH."""
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = browser\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.conftest", "-n", "1", tmp_path]
    environment = os.environ | {"PATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, *last = done.stdout.splitlines()[-3:]
    assert "1 passed, 3 skipped" in passed
    assert last == [
        "2 tests were not run: browser tests need chromium on PATH; on Debian: apt-get install chromium",
        "1 test was not run: no compiler; on Debian: apt-get install g++",
    ]
