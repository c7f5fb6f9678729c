"""Every kind of saved file is complete after a kill, a full disk or a read-only folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.promise("Atomic saves")]


def test_saved_files_are_complete_after_a_kill_at_any_moment() -> None:
    """Exports, films, checkpoints, reports, trained models and pruned ones; scans are in tests/scan/test_resume.py."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="headscope-killed-") as folder:
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "tests.security.killed_saves", folder, "0"],
            cwd=root, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert {name: found["wrong"] for name, found in said.items()} == {name: [] for name in said}
    assert all(found["cut"] for found in said.values()), f"kills that left something unfinished: {said}"
