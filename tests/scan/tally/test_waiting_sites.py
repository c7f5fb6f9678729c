"""A scan whose sites are observed together after each pass, without a GPU: in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_sites_together_give_the_sums_of_sites_one_by_one_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")
    # Without the run-time type checks: they would wrap the kernels, and the interpreter reads their source.
    options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *options, "tests/scan/tally/interpreted.py"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=540
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
