"""The wheel carries everything that an installed copy needs: weights, the built page, lessons, cards, types."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def _checker() -> ModuleType:
    found = importlib.util.spec_from_file_location("wheel_check", ROOT / "bench" / "wheel.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_wheel_is_whole_and_small(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "build",
        "--quiet",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("headscope-*.whl")
    checker = _checker()
    assert checker.missing(wheel) == []
    assert wheel.stat().st_size <= checker.LARGEST
