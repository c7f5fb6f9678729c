"""A head's pattern as a PNG file, drawn with matplotlib (the ``plot`` extra)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from headscope.app.colour import STOPS
from headscope.app.terminal import visible
from headscope.errors import InputError
from headscope.files import write_atomic

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

MOST_LABELS = 64
MOST_CELLS = 512


def save_png(look: Look, head: str, path: Path | str) -> None:
    """Save one head's pattern as a heat map; past 512 tokens pooled and without token labels."""
    try:
        from matplotlib.colors import LinearSegmentedColormap, PowerNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("a PNG needs matplotlib, which is not here; pip install 'headscope[plot]'") from error
    length = len(look.tokens)
    weights = look.pattern(head) if length <= MOST_CELLS else look.pooled(head, (MOST_CELLS, MOST_CELLS)).mean[0]
    side = min(12.0, 2.5 + 0.22 * min(length, 44))
    figure = Figure(figsize=(side, side), facecolor="#FCFBF8", layout="constrained")
    axes = figure.subplots()
    ramp = LinearSegmentedColormap.from_list("weights", [f"#{stop}" for stop in STOPS])
    image = axes.imshow(weights.numpy(), cmap=ramp, norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
    axes.set_title(f"head {head}", loc="left", fontweight="bold")
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    if length <= MOST_LABELS:
        names = [visible(token.text) for token in look.tokens]
        if weights.shape[1] == length:
            axes.set_xticks(range(length), names, rotation=90, fontsize=8, parse_math=False)
        if weights.shape[0] == length:
            axes.set_yticks(range(length), names, fontsize=8, parse_math=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.5, ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1], label="weight (root scale)")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=150)
    write_atomic(Path(path), drawn.getvalue())
