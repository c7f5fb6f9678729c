"""A look's head as a PNG file, with matplotlib: its pattern, or the picture or sound with what the head reads of it."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.app.colour import STOPS
from headscope.app.pages.media.head_map import HeadMap, head_map, map_grid
from headscope.app.pages.media.shown import media_info, picture_of
from headscope.app.pages.media.streams import token_streams
from headscope.app.terminal import share, visible
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.models.inputs.media_positions import ShownPicture, seconds_covered
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.heads.look.look import Look

PAPER, INK = "#FCFBF8", "#22252B"


def _new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches; refused without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("a PNG needs matplotlib, which is not here; pip install 'headscope[plot]'") from error
    return Figure(figsize=(width, height), facecolor=PAPER, layout="constrained")


def _weight_ramp() -> Any:
    """The colours of attention weights."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weights", [f"#{stop}" for stop in STOPS])


def _write_figure(figure: Any, path: Path) -> None:
    """Write a figure as a PNG file."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=150)
    write_atomic(path, drawn.getvalue())


VEIL = 0.9
"""How much of a patch that is not read is hidden, as on the page."""

MOST_HEADS = 576
MOST_ROWS = 48
LARGE, SMALL = 6.0, 1.15  # inches of a picture's longer side, alone and among others


def _save_picture_png(look: Look, head: str | None, path: Path | str, query: int | str | None = None) -> None:
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
    figure = _new_figure(columns * (width + 0.12) + 0.2, rows * (height + 0.34) + 0.75)
    cells = figure.subplots(rows, columns, squeeze=False)
    for axes in cells.flat:
        axes.axis("off")
    for axes, each in zip(cells.flat, maps, strict=False):
        _draw_map(axes, shown.pixels, each)
        axes.set_title(f"{each.head}", loc="left", fontsize=11 if head else 7, fontweight="bold", color=INK)
    figure.suptitle(_sentence(maps, head is not None), x=0.02, ha="left", fontsize=9, color=INK, parse_math=False)
    _write_figure(figure, Path(path))


def _save_sound_png(look: Look, head: str, path: Path | str) -> None:
    """Save a sound's waveform over the rows of one head's pattern, each row scaled to its largest weight."""
    found = look.shape.find(head)
    queries, n_keys = look.query_tokens(found.site), len(look.key_tokens(found.site))
    info, arrays = media_info(look, token_streams(look).tokens)
    seconds = max(info.covered.values()) if info is not None and info.covered else None
    weights = look.weights(found).float().numpy() if len(queries) <= MOST_ROWS else _pooled(look, found, n_keys)
    strips = weights / np.maximum(weights.max(axis=1, keepdims=True), 1e-12)
    figure = _new_figure(9.0, 2.6 + 0.16 * len(strips))
    wave, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, max(1.0, 0.16 * len(strips))])
    end = seconds or float(n_keys)
    if "waveform" in arrays:
        heard = (info.seconds if info is not None and info.seconds else end) or end
        times = np.linspace(0, heard, len(arrays["waveform"]))
        wave.fill_between(times, arrays["waveform"][:, 0], arrays["waveform"][:, 1], color=INK, linewidth=0.4)
    wave.set_yticks([])
    wave.set_title(f"head {found}", loc="left", fontweight="bold")
    below.imshow(strips, cmap=_weight_ramp(), aspect="auto", interpolation="nearest", extent=(0, end, len(strips), 0))
    below.set_xlabel("seconds" if seconds else "key")
    if len(strips) == len(queries):
        labels = [visible(token.text) for token in queries]
        below.set_yticks(np.arange(len(queries)) + 0.5, labels, fontsize=8, parse_math=False)
    for axes in (wave, below):
        axes.spines[:].set_visible(False)
    _write_figure(figure, Path(path))


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


MOST_LABELS = 64
MOST_CELLS = 512


def save_png(look: Look, head: str | None, path: Path | str, query: int | str | None = None) -> None:
    """Save one head over its picture or sound, else its pattern as a heat map.

    Of a picture all heads are drawn if none is named. ``query`` chooses what reads it: a position or its label, such as
    ``"patch 3,4"``.
    """
    if isinstance(picture_of(look), ShownPicture) and (head is None or _reads_patches(look, head)):
        _save_picture_png(look, head, path, query)
        return
    if head is None:
        raise InputError("--png draws one head; name it with --head, as in --head 3.5")
    if seconds_covered(look.key_tokens(look.shape.find(head).site)) is not None:
        _save_sound_png(look, head, path)
        return
    _save_heat_map(look, head, path)


def _save_heat_map(look: Look, head: str, path: Path | str) -> None:
    """Save one head's pattern as a heat map; past 512 tokens pooled and without token labels."""
    length = len(look.tokens)
    side = min(12.0, 2.5 + 0.22 * min(length, 44))
    figure = _new_figure(side, side)
    from matplotlib.colors import PowerNorm

    weights = look.pattern(head) if length <= MOST_CELLS else look.pooled(head, (MOST_CELLS, MOST_CELLS)).mean[0]
    axes = figure.subplots()
    image = axes.imshow(weights.numpy(), cmap=_weight_ramp(), norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
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
    _write_figure(figure, Path(path))


def _reads_patches(look: Look, head: str) -> bool:
    return map_grid(look, look.shape.find(head).site) is not None
