"""A picture or sound with what a head reads of it, as a PNG file, drawn with matplotlib (the ``plot`` extra)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.app.export.drawing import INK, PAPER, new_figure, weight_ramp, write_figure
from headscope.app.pages.media.head_map import HeadMap, head_map, map_grid
from headscope.app.pages.media.shown import media_info, picture_of
from headscope.app.pages.media.streams import token_streams
from headscope.app.terminal import share, visible
from headscope.errors import InputError
from headscope.models.inputs.media_positions import ShownPicture
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

VEIL = 0.9
"""How much of a patch that is not read is hidden, as on the page."""

MOST_HEADS = 576
MOST_ROWS = 48
LARGE, SMALL = 6.0, 1.15  # inches of a picture's longer side, alone and among others


def save_picture_png(look: Look, head: str | None, path: Path | str, query: int | str | None = None) -> None:
    """Save the picture that a model has read under one head's attention; under every head's where none is named."""
    shown = picture_of(look)
    if not isinstance(shown, ShownPicture):
        raise InputError(f"there is no picture to draw: {shown or 'this look has read none'}")
    names = [head] if head is not None else _heads_with_maps(look)
    maps = [head_map(look, name, query) for name in names]
    side = LARGE if head is not None else SMALL
    height, width = (side * edge / max(shown.pixels.shape[:2]) for edge in shown.pixels.shape[:2])
    columns = 1 if head is not None else min(len(maps), max(look.shape.find(name).head + 1 for name in names))
    rows = math.ceil(len(maps) / columns)
    figure = new_figure(columns * (width + 0.12) + 0.2, rows * (height + 0.34) + 0.75)
    cells = figure.subplots(rows, columns, squeeze=False)
    for axes in cells.flat:
        axes.axis("off")
    for axes, each in zip(cells.flat, maps, strict=False):
        _draw_map(axes, shown.pixels, each)
        axes.set_title(f"{each.head}", loc="left", fontsize=11 if head else 7, fontweight="bold", color=INK)
    figure.suptitle(_sentence(maps, head is not None), x=0.02, ha="left", fontsize=9, color=INK, parse_math=False)
    write_figure(figure, Path(path))


def save_sound_png(look: Look, head: str, path: Path | str) -> None:
    """Save a sound's waveform over the rows of one head's pattern, each row scaled to its largest weight."""
    found = look.shape.find(head)
    queries, n_keys = look.query_tokens(found.site), len(look.key_tokens(found.site))
    info, arrays = media_info(look, token_streams(look).tokens)
    seconds = max(info.covered.values()) if info is not None and info.covered else None
    weights = look.weights(found).float().numpy() if len(queries) <= MOST_ROWS else _pooled(look, found, n_keys)
    strips = weights / np.maximum(weights.max(axis=1, keepdims=True), 1e-12)
    figure = new_figure(9.0, 2.6 + 0.16 * len(strips))
    wave, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, max(1.0, 0.16 * len(strips))])
    end = seconds or float(n_keys)
    if "waveform" in arrays:
        heard = (info.seconds if info is not None and info.seconds else end) or end
        times = np.linspace(0, heard, len(arrays["waveform"]))
        wave.fill_between(times, arrays["waveform"][:, 0], arrays["waveform"][:, 1], color=INK, linewidth=0.4)
    wave.set_yticks([])
    wave.set_title(f"head {found}", loc="left", fontweight="bold")
    below.imshow(strips, cmap=weight_ramp(), aspect="auto", interpolation="nearest", extent=(0, end, len(strips), 0))
    below.set_xlabel("seconds" if seconds else "key")
    if len(strips) == len(queries):
        labels = [visible(token.text) for token in queries]
        below.set_yticks(np.arange(len(queries)) + 0.5, labels, fontsize=8, parse_math=False)
    for axes in (wave, below):
        axes.spines[:].set_visible(False)
    write_figure(figure, Path(path))


def _pooled(look: Look, head: Head, n_keys: int) -> NDArray[np.float32]:
    return look.pooled(head, (MOST_ROWS * 4, min(n_keys, 1024))).mean[0].float().numpy()


def _heads_with_maps(look: Look) -> list[str]:
    """Every head that reads patches, site by site."""
    sites = [site for site in look.sites if map_grid(look, site) is not None]
    names = [str(head) for site in sites for head in look.shape.sites[site].heads()]
    if not names:
        raise InputError("no site of this look reads patches of the picture one by one; name a head with --head")
    if len(names) > MOST_HEADS:
        raise InputError(f"{len(names)} heads do not fit one picture ({MOST_HEADS} at most); name one with --head")
    return names


def _draw_map(axes: Any, pixels: NDArray[np.uint8], drawn: HeadMap) -> None:
    """The picture, and paper over each patch: none over the one that is read most."""
    height, width = pixels.shape[:2]
    extent = (0, width, height, 0)
    axes.imshow(pixels, extent=extent, interpolation="nearest")
    top = max(float(drawn.weights.max()), 1e-12)
    paper = np.empty((*drawn.weights.shape, 4), dtype=np.float32)
    paper[..., :3] = [int(PAPER[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    paper[..., 3] = VEIL * (1 - np.sqrt(np.clip(drawn.weights / top, 0, 1)))
    axes.imshow(paper, extent=extent, interpolation="nearest")
    if drawn.chosen is not None:
        from matplotlib.patches import Rectangle

        across, down = width / drawn.weights.shape[1], height / drawn.weights.shape[0]
        corner = (drawn.chosen[1] * across, drawn.chosen[0] * down)
        axes.add_patch(Rectangle(corner, across, down, fill=False, edgecolor="#C8442B", linewidth=1.5))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)


def _sentence(maps: list[HeadMap], alone: bool) -> str:
    """What is drawn, in a line."""
    one = maps[0]
    who = "the mean over all queries" if one.query == "mean" else f"“{visible(one.query)}”"
    if not alone:
        return f"what {who} reads of the picture, by head; in each, clearer is more"
    where = f"clearest {float(one.weights.max()):.3f}; {share(one.outside)} lies outside the picture"
    return f"what {who} reads: {where};\nover all queries “{visible(one.sink)}” is read most"
