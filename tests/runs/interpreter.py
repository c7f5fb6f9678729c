"""Tests of the Triton kernels without a GPU: Triton's interpreter, in a process of its own.

Triton decides at import whether to interpret, so the files with these tests are collected by ``run_interpreted`` alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_interpreted(file: str) -> None:
    """Run a file of tests with ``TRITON_INTERPRET``, and fail with the end of what it printed."""
    pytest.importorskip("triton", reason="the fused kernels need Triton: pip install triton")
    # Without the run-time type checks: they would wrap the kernels, and the interpreter reads their source.
    options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", *options, file]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=540
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def allow_one_element_bounds() -> None:
    """Triton 3.6 takes loop bounds from one-element arrays by ``int``, which NumPy 2.4 no longer allows."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched
