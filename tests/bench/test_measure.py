"""How benchmarks measure: a contender that fails is named, and the others are measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_contender_that_fails_does_not_lose_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.spec_from_file_location("measure_under_test", ROOT / "bench" / "measure.py")
    assert found is not None
    assert found.loader is not None
    measure = importlib.util.module_from_spec(found)
    sys.modules[found.name] = measure  # dataclasses look their module up
    found.loader.exec_module(measure)
    ran: list[str] = []

    def fails() -> None:
        raise RuntimeError("no kernel for this shape")

    run, stopped = measure.working({"first": lambda: ran.append("first"), "bad": fails, "last": lambda: None})
    assert (list(run), ran) == (["first", "last"], ["first"])
    assert stopped == {"bad": "RuntimeError: no kernel for this shape"}
    assert "bad failed: RuntimeError: no kernel for this shape" in capsys.readouterr().out
    assert list(measure.interleaved(run, seconds=0.0, least=1)) == ["first", "last"]
