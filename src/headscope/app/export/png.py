"""A look's head as a PNG file: a heat map of its pattern, or the picture or sound with what the head reads of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headscope.app.export.drawing import new_figure, weight_ramp, write_figure
from headscope.app.export.media_png import save_picture_png, save_sound_png
from headscope.app.pages.media.head_map import map_grid
from headscope.app.pages.media.shown import picture_of
from headscope.app.terminal import visible
from headscope.errors import InputError
from headscope.models.inputs.media_positions import ShownPicture, seconds_covered

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

MOST_LABELS = 64
MOST_CELLS = 512


def save_png(look: Look, head: str | None, path: Path | str, query: int | str | None = None) -> None:
    """Save one head over its picture or sound, else its pattern as a heat map.

    Of a picture all heads are drawn if none is named. ``query`` chooses what reads it: a position or its label, such as
    ``"patch 3,4"``.
    """
    if isinstance(picture_of(look), ShownPicture) and (head is None or _reads_patches(look, head)):
        save_picture_png(look, head, path, query)
        return
    if head is None:
        raise InputError("--png draws one head; name it with --head, as in --head 3.5")
    if seconds_covered(look.key_tokens(look.shape.find(head).site)) is not None:
        save_sound_png(look, head, path)
        return
    save_heat_map(look, head, path)


def save_heat_map(look: Look, head: str, path: Path | str) -> None:
    """Save one head's pattern as a heat map; past 512 tokens pooled and without token labels."""
    length = len(look.tokens)
    side = min(12.0, 2.5 + 0.22 * min(length, 44))
    figure = new_figure(side, side)
    from matplotlib.colors import PowerNorm

    weights = look.pattern(head) if length <= MOST_CELLS else look.pooled(head, (MOST_CELLS, MOST_CELLS)).mean[0]
    axes = figure.subplots()
    image = axes.imshow(weights.numpy(), cmap=weight_ramp(), norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
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
    write_figure(figure, Path(path))


def _reads_patches(look: Look, head: str) -> bool:
    return map_grid(look, look.shape.find(head).site) is not None
