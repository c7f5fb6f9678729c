"""Figures of matplotlib (the ``plot`` extra) in the page's colours, written whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from headscope.app.colour import STOPS
from headscope.errors import InputError
from headscope.files import write_atomic

PAPER, INK = "#FCFBF8", "#22252B"


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches; refused without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("a PNG needs matplotlib, which is not here; pip install 'headscope[plot]'") from error
    return Figure(figsize=(width, height), facecolor=PAPER, layout="constrained")


def weight_ramp() -> Any:
    """The colours of attention weights."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", [f"#{stop}" for stop in STOPS])


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure as a PNG file."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=150)
    write_atomic(path, drawn.getvalue())
