"""What the page's tests hold a published site's own computations against is what Python computes now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.app.publish.lab_answers import FILE, lab_answers


def test_the_stored_answers_are_pythons() -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    assert stored.pop("generated")
    _same(lab_answers(), stored)


def _same(found: Any, stored: Any) -> None:
    """Equal, numbers to 1e-4: training sums floats in an order that depends on the processor."""
    if isinstance(found, dict):
        assert found.keys() == stored.keys()
        for key in found:
            _same(found[key], stored[key])
    elif isinstance(found, list):
        assert len(found) == len(stored)
        for one, other in zip(found, stored, strict=True):
            _same(one, other)
    elif isinstance(found, float):
        assert found == pytest.approx(stored, abs=1e-4)
    else:
        assert found == stored
