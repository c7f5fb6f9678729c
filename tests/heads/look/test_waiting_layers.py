"""Looks whose layers are observed together after the pass, without a GPU: in Triton's interpreter."""

from __future__ import annotations

import pytest
from tests.runs.interpreter import run_interpreted

pytestmark = pytest.mark.slow


def test_looks_by_the_short_path_equal_the_long_path_in_the_interpreter() -> None:
    run_interpreted("tests/heads/interpreted.py")
