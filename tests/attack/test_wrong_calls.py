"""A wrong type, a wrong name or a wrong value ends every public function in an error of ours, never in one of torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_wrong_argument_is_refused_in_our_words() -> None:
    command = [sys.executable, "-m", "tests.attack.wrong_calls"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}
