"""Show and save looks as notebook output, pages, pictures and sound: ``heads`` imports none of these itself."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.app.export.html import save_html
from headscope.app.pages.media.shown import HeadMap, head_map, map_grid, media_info, picture_of, token_streams
from headscope.app.terminal import share
from headscope.errors import InputError
from headscope.heads.figure import WIDTH, Box, Figure, Image, Label, Pixels, grid_figure, shown, weight_pixels
from headscope.heads.look.look import Look
from headscope.heads.step_looks import StepLooks
from headscope.models.inputs.media_positions import ShownPicture, seconds_covered
from headscope.names import HeadName

VEIL, PAPER, MARK = 0.9, (252, 251, 248), (200, 68, 43)
"""How much of a patch that is not read is hidden, as on the page; the paper that hides it; the frame of the query."""
MOST_HEADS, MOST_ROWS, BARS = 576, 48, 480
SMALL = 112  # pixels of a picture's longer side among others


def drawn_media(look: Look, head: HeadName | int | None = None, query: int | str | None = None) -> Figure | None:
    """Draw a picture under the attention of one head or all, or a sound over a head's pattern; else None."""
    picture = picture_of(look)
    if isinstance(picture, ShownPicture):
        if head is None:
            return _all_heads(look, picture.pixels, query)
        found = look.find(head)
        if map_grid(look, found.site) is not None:
            seen = head_map(look, found, query)
            size = WIDTH - 8, (WIDTH - 8) * picture.pixels.shape[0] / picture.pixels.shape[1]
            marks = (Image(4, 26, *size, _veiled(picture.pixels, seen)), *_said(seen))
            return Figure(WIDTH, 30 + size[1], marks, f"What head {found} reads of the picture")
    if head is not None and seconds_covered(look.key_tokens(look.find(head).site)) is not None:
        return _sound(look, head)
    return None


def _said(seen: HeadMap) -> tuple[Label, Label]:
    who = "the mean over all queries" if seen.query == "mean" else f"“{shown(seen.query)}”"
    where = f"clearest {float(seen.weights.max()):.3f}; {share(seen.outside)} lies outside the picture"
    sink = f"over all queries “{shown(seen.sink)}” is read most"
    return Label(4, 9, f"Head {seen.head}: what {who} reads", 7.0, bold=True), Label(4, 19, f"{where}; {sink}")


def _all_heads(look: Look, pixels: Pixels, query: int | str | None) -> Figure | None:
    """The picture under every head that reads its patches; None where none does."""
    sites = [look.shape.sites[site].heads() for site in look.sites if map_grid(look, site) is not None]
    count = sum(map(len, sites))
    if count > MOST_HEADS:
        raise InputError(f"{count} heads do not fit one picture ({MOST_HEADS} at most); name a head")
    step = max(1, max(pixels.shape[:2]) // SMALL)
    small = np.ascontiguousarray(pixels[::step, ::step])
    images = [[_veiled(small, head_map(look, head, query)) for head in heads] for heads in sites]
    names = [list(map(str, heads)) for heads in sites]
    return grid_figure(images, names, "What each head reads of the picture: clearer is more") if sites else None


def _veiled(pixels: Pixels, seen: HeadMap) -> Pixels:
    """The picture, and paper over each patch: none over the one that is read most."""
    rows, columns = (np.arange(side) * n // side for side, n in zip(pixels.shape, seen.weights.shape, strict=False))
    part = 1 - np.sqrt(np.clip(seen.weights / max(float(seen.weights.max()), 1e-12), 0, 1))
    veil = VEIL * part[rows[:, None], columns][..., None]
    drawn: Pixels = (pixels[..., :3] * (1 - veil) + np.array(PAPER) * veil).round().astype(np.uint8)
    if seen.chosen is not None:
        here = (rows == seen.chosen[0])[:, None] & (columns == seen.chosen[1])
        inner = here & np.roll(here, 2, 0) & np.roll(here, -2, 0) & np.roll(here, 2, 1) & np.roll(here, -2, 1)
        drawn[here & ~inner] = MARK
    return drawn


def _sound(look: Look, head: HeadName | int) -> Figure:
    """A sound's waveform over the rows of one head's pattern, each row scaled to its largest weight."""
    found = look.find(head)
    queries, n_keys = look.query_tokens(found.site), len(look.key_tokens(found.site))
    few = len(queries) <= MOST_ROWS
    pooled = (MOST_ROWS, min(n_keys, BARS))
    weights = (look.weights(found) if few else look.pooled(found, pooled).mean[0]).float().numpy()
    strips = weights / np.maximum(weights.max(axis=1, keepdims=True), 1e-12)
    names = [shown(token.text) for token in queries] if few else []
    left, tall = 6 + 3.4 * max(map(len, names), default=0), min(200.0, 7.0 * len(strips))
    row, title = tall / len(strips), f"Head {found}: when each query listens"
    marks: list[Label | Image | Box] = [Label(4, 9, title, 7.0, bold=True)]
    marks.append(Image(left, 54, WIDTH - left - 4, tall, weight_pixels(strips)))
    for at, name in enumerate(names):
        marks.append(Label(left - 2, 54 + (at + 0.8) * row, name, min(6.0, row), "end"))
    info, arrays = media_info(look, token_streams(look).tokens)
    if "waveform" in arrays and info is not None:
        marks.append(Image(left, 16, WIDTH - left - 4, 34, _wave(arrays["waveform"])))
    return Figure(WIDTH, 60 + tall, tuple(marks), title)


def _wave(bounds: NDArray[Any]) -> Pixels:
    """The lowest and highest samples as a black band."""
    heights = np.linspace(1, -1, 64)[:, None]
    top = max(float(np.abs(bounds).max()), 1e-9)
    dark = (heights >= bounds[:, 0] / top - 0.02) & (heights <= bounds[:, 1] / top + 0.02)
    return np.where(dark[..., None], 34, 255).repeat(3, axis=2).astype(np.uint8)


__all__ = ["display", "drawn_media", "save_html"]


def display(look: Look | StepLooks) -> Any:
    """The MIME bundle for IPython: the microscope, and a picture and text where no kernel runs; None elsewhere."""
    from IPython import get_ipython
    from rich.console import Console

    from headscope.app.terminal import summary

    if getattr(get_ipython(), "kernel", None) is None:  # IPython in a terminal shows no widget
        return None
    written = io.StringIO()
    shown = look if isinstance(look, Look) else look[0]
    Console(file=written, width=100).print(summary(shown))
    still = {"text/plain": written.getvalue().rstrip(), "image/svg+xml": (drawn_media(shown) or shown.plot()).svg()}
    if find_spec("anywidget") is None:
        return still | {"text/plain": f"{still['text/plain']}\nTo use it here: pip install anywidget"}
    from headscope.app.export.widget import Microscope

    live: Any = Microscope(look)._repr_mimebundle_()
    bundle, about = live if isinstance(live, tuple) else (live, {})
    return {**bundle, **still}, about
