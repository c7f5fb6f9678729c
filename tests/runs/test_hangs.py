"""A test that never returns fails by its name, and no process outlives a run of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TESTS = """
import pathlib, subprocess, sys, threading

def test_waiting(): threading.Event().wait()

def test_outside_python(): sum(range(10**18))  # runs no bytecode, so that no signal is handled

def test_after(): ...

def test_a_process_left():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    pathlib.Path("left").write_text(str(left.pid))

def test_a_thread_left(): threading.Thread(target=threading.Event().wait).start()
"""
INI = """
[pytest]
timeout = 2
timeout_method = signal
faulthandler_timeout = 4
faulthandler_exit_on_timeout = true
"""
START = """
import sys, pytest, tests.runs.leftovers

import pytest
tests.runs.leftovers.GRACE = 0.5
tests.runs.leftovers.LAST_SECONDS = 1
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_a_run_ends_and_names_what_hung(tmp_path: Path) -> None:
    """No threshold: what is tried here would never end by itself."""
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(INI, encoding="utf-8")
    plugins = ["-p", "xdist", "-p", "pytest_timeout", "-p", "tests.conftest", "-n", "1", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-c", START, *plugins, str(tmp_path)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED test_some.py::test_waiting - Failed: Timeout (>2.0s) from pytest-timeout." in done.stdout
    assert "crashed while running 'test_some.py::test_outside_python'" in done.stdout
    assert "2 failed, 3 passed" in done.stdout
    left = (tmp_path / "left").read_text(encoding="utf-8")
    assert f"process {left} outlived the tests and was ended" in done.stdout
    assert "started in test_some.py::test_a_process_left (call)" in done.stdout
    assert not psutil.pid_exists(int(left)) or psutil.Process(int(left)).status() == psutil.STATUS_ZOMBIE
