"""Figures for papers and notebooks: patterns and maps of heads in the page's colours, as SVG, PDF or PNG.

One column wide, 246 points. A figure is a list of marks: SVG is written from it directly, PDF and PNG with matplotlib.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.names import printable

STOPS = ("F5F2EB", "DED6BA", "BFBBA6", "9DA09C", "7B8693", "5D6C86", "415378", "2A3967", "151F56")
"""The colours of attention weights, over the square root of the weight."""
INK, PAPER, QUIET = "#22252B", "#FFFFFF", "#6B6F76"
NEGATIVE, ZERO, POSITIVE = (np.array(tuple(bytes.fromhex(each))) for each in ("94620D", "F5F2EB", "1D377B"))
WIDTH = 246.0  # points: one column of a paper
MOST_CELLS = 64  # rows or columns that are drawn one by one and labelled; more are one image
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
Pixels = NDArray[np.uint8]
Number = int | float


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: Number
    y: Number
    width: Number
    height: Number
    fill: str


@dataclass(frozen=True)
class Label:
    """A line of text at a point; ``turned`` reads upwards."""

    x: Number
    y: Number
    text: str
    size: Number = 6.0
    anchor: str = "start"
    turned: bool = False
    fill: str = INK
    bold: bool = False


@dataclass(frozen=True)
class Image:
    """An image whose pixels are drawn as they are, without smoothing."""

    x: Number
    y: Number
    width: Number
    height: Number
    pixels: Pixels


@dataclass(frozen=True)
class Figure:
    """A picture that ``save`` writes as SVG, PDF or PNG, by the suffix. A notebook shows it."""

    width: Number
    height: Number
    marks: tuple[Box | Label | Image, ...]
    about: str
    """What it shows, for those who cannot see it."""

    def save(self, path: str | Path) -> Path:
        """Write a .svg, .pdf or .png file (the last two with matplotlib); return its path."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".pdf", ".png"):
            raise InputError(f"{path}: a figure is saved as .svg, .pdf or .png; end the name in one of them")
        write_atomic(Path(path), self.svg().encode() if suffix == ".svg" else self._drawn(suffix[1:]))
        return Path(path)

    def svg(self) -> str:
        """The figure as one SVG element."""
        size = f'width="{self.width:g}pt" height="{self.height:g}pt" viewBox="0 0 {self.width:g} {self.height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" role="img">'
        about = f'<title>{escape(self.about)}</title><rect width="100%" height="100%" fill="{PAPER}"/>'
        return "\n".join((head, about, *map(_svg, self.marks), "</svg>\n"))

    def _drawn(self, kind: str) -> bytes:
        """The bytes of a PDF or PNG."""
        try:
            import matplotlib
            from matplotlib.figure import Figure as Canvas
            from matplotlib.patches import Rectangle
        except ImportError as error:
            raise InputError(f".{kind} needs matplotlib: pip install matplotlib. An .svg needs nothing") from error
        canvas = Canvas(figsize=(self.width / 72, self.height / 72), facecolor=PAPER)
        axes: Any = canvas.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for mark in self.marks:
            if isinstance(mark, Box):
                corner = (mark.x, mark.y)
                axes.add_patch(Rectangle(corner, mark.width, mark.height, facecolor=mark.fill, linewidth=0))
            elif isinstance(mark, Image):
                extent = (mark.x, mark.x + mark.width, mark.y + mark.height, mark.y)
                axes.imshow(mark.pixels, extent=extent, interpolation="nearest", aspect="auto")
            else:
                side = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
                turned = {"rotation": 90, "rotation_mode": "anchor"} if mark.turned else {}
                weight = "bold" if mark.bold else "normal"
                axes.text(
                    mark.x, mark.y, mark.text, fontsize=mark.size, ha=side, va="baseline", color=mark.fill,
                    fontweight=weight, parse_math=False, **turned,
                )  # fmt: skip
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        written = io.BytesIO()
        dates = {"CreationDate": None} if kind == "pdf" else {}
        with matplotlib.rc_context({"pdf.fonttype": 42}):
            canvas.savefig(written, format=kind, dpi=300, metadata=dates)
        return written.getvalue()

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"Figure({self.about}; save it as .svg, .pdf or .png)"


def _svg(mark: Box | Label | Image) -> str:
    place = f'x="{mark.x:.2f}" y="{mark.y:.2f}"'
    if isinstance(mark, Label):
        turned = f' transform="rotate(-90 {mark.x:.2f} {mark.y:.2f})"' if mark.turned else ""
        bold = ' font-weight="bold"' if mark.bold else ""
        style = f'font-size="{mark.size:g}" text-anchor="{mark.anchor}" fill="{mark.fill}"{bold}{turned}'
        return f"<text {place} {style}>{escape(mark.text)}</text>"
    size = f'width="{mark.width:.2f}" height="{mark.height:.2f}"'
    if isinstance(mark, Box):
        return f'<rect {place} {size} fill="{mark.fill}"/>'
    data = base64.b64encode(png(mark.pixels)).decode("ascii")
    style = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
    return f'<image {place} {size} {style} href="data:image/png;base64,{data}"/>'


def png(pixels: Pixels) -> bytes:
    """The PNG of pixels ``[row, column, 3]``."""
    rows, columns = pixels.shape[:2]
    lines = np.concatenate((np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)), axis=1).tobytes()
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines, 9)))
    parts = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (*chunks, (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def weight_pixels(weights: NDArray[Any]) -> Pixels:
    """Red, green and blue of weights between 0 and 1."""
    ramp = np.array([tuple(bytes.fromhex(stop)) for stop in STOPS], dtype=float)
    place = np.sqrt(np.clip(np.nan_to_num(weights), 0, 1)) * (len(STOPS) - 1)
    colours = [np.interp(place, range(len(STOPS)), ramp[:, channel]) for channel in range(3)]
    return np.stack(colours, axis=-1).round().astype(np.uint8)


def weight_colour(weight: float) -> tuple[int, int, int]:
    """Red, green and blue of one weight."""
    red, green, blue = weight_pixels(np.array(weight)).tolist()
    return red, green, blue


def _signed_pixels(shares: NDArray[Any]) -> Pixels:
    """Red, green and blue of numbers between −1 and 1."""
    size = np.abs(np.nan_to_num(shares))[..., None]
    ends = np.where(np.nan_to_num(shares)[..., None] < 0, NEGATIVE, POSITIVE)
    return (ZERO + (ends - ZERO) * size).round().astype(np.uint8)  # type: ignore[no-any-return]


def cell_figure(
    values: NDArray[Any], rows: Sequence[str], columns: Sequence[str], title: str, *, signed: bool, numbers: bool
) -> Figure:
    """Values ``[row, column]`` as coloured cells; NaN is left out. ``numbers`` are written where they fit.

    Weights have the page's scale from 0 to 1. Signed values are scaled to the largest, and negative ones get a dash.
    """
    top = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    top = top if signed else max(top, 1.0)
    pixels = _signed_pixels(values / top) if signed else weight_pixels(values / top)
    scale = f"blue: positive, ochre: negative; darkest {top:.3g}" if signed else f"darker is more: 0 to {top:.3g}"
    drawn = max(values.shape) <= MOST_CELLS
    names = ([shown(name) for name in each] if drawn else [] for each in (rows, columns))
    rows, columns = list(names)[:2]
    longest = max(map(len, columns), default=0)
    left = 6 + 3.4 * max(map(len, rows), default=0)
    turned = longest > 2
    above = 18 + (3.4 * longest if turned else 8 * bool(columns))
    side = (WIDTH - left - 4) / values.shape[1]
    tall = min(side, 18.0) if numbers else side
    size = min(6.0, 0.85 * tall)
    if not drawn:
        marks: list[Box | Label | Image] = [Image(left, above, WIDTH - left - 4, tall * values.shape[0], pixels)]
    else:
        marks = []
    for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True) if drawn else ():
        value, (x, y) = values[row, column], (left + column * side, above + row * tall)
        red, green, blue = pixels[row, column].tolist()
        ink = PAPER if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else INK
        if signed or numbers or value >= 5e-4:  # what looks like paper is not drawn
            marks.append(Box(x, y, side - 0.4, tall - 0.4, f"#{red:02X}{green:02X}{blue:02X}"))
        if numbers and side >= 15:
            text = f"{value:+.2f}" if signed else f"{value:.2f}".removeprefix("0")
            marks.append(Label(x + side / 2, y + tall / 2 + 2, text, 5.0, "middle", fill=ink))
        elif signed and value < -0.02 * top:
            marks.append(Box(x + side / 4, y + 0.45 * tall, side / 2, max(0.5, tall / 10), ink))
    for row, name in enumerate(rows):
        marks.append(Label(left - 2, above + (row + 0.5) * tall + 0.35 * size, name, size, "end"))
    for column, name in enumerate(columns):
        middle = left + (column + 0.5) * side
        at = (middle + 0.35 * size, above - 3) if turned else (middle, above - 3)
        marks.append(Label(*at, name, size, "start" if turned else "middle", turned))
    below = above + tall * values.shape[0]
    marks += [Label(4, 9, title, 7.0, bold=True), Label(WIDTH - 4, below + 7, scale, 5.0, "end", fill=QUIET)]
    return Figure(WIDTH, round(below + 11, 2), tuple(marks), title)


def grid_figure(images: Sequence[Sequence[Pixels | None]], names: Sequence[Sequence[str]], title: str) -> Figure:
    """Small images in rows and columns, each with its name."""
    columns, gap = max(map(len, images)), 3.0
    side = (WIDTH - 8) / columns - gap
    marks: list[Box | Label | Image] = [Label(4, 9, title, 7.0, bold=True)]
    y = 14.0
    for row, written in zip(images, names, strict=True):
        shapes = [each.shape for each in row if each is not None]
        tall = max((side * shape[0] / shape[1] for shape in shapes), default=side)
        for column, (each, name) in enumerate(zip(row, written, strict=True)):
            x = 4 + column * (side + gap)
            marks.append(Label(x, y + 5, name, min(5.0, side / 5), fill=QUIET))
            if each is not None:
                marks.append(Image(x, y + 6.5, side, side * each.shape[0] / each.shape[1], each))
        y += tall + 9
    return Figure(WIDTH, round(y + 2, 2), tuple(marks), title)


def shown(text: str) -> str:
    """A token without leading space or line breaks, whitespace shown as a sign."""
    return printable(text.strip().replace("\n", "⏎")) or {"\n": "⏎", "\t": "⇥"}.get(text[:1], "␣")
