"""The catalogue of sentences, names and thresholds that Python and the page share; both fill it from data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SENTENCES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def percent(share: float) -> str:
    """A share in a sentence: whole percent."""
    edges: dict[str, str] = SENTENCES["percent"]
    return edges["least"] if 0 < share < 0.01 else edges["most"] if 0.99 < share < 1 else f"{share:.0%}"
