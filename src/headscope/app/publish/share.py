"""What a link to a site shows elsewhere: Open Graph tags in the head of its page, a picture of its model's heads."""

from __future__ import annotations

import html
import struct
import zlib
from math import ceil

import numpy as np
from numpy.typing import NDArray

from headscope.app.colour import weight_colour
from headscope.heads.look.look import Look

IMAGE = "share.png"
WIDTH, HEIGHT = 1200, 630  # pixels, the form that most previews show whole
MARGIN = 20  # pixels, at least
PAPER = (252, 251, 248)
LEVELS = 255  # colours of weights; the last entry of the palette is the paper
DESCRIPTION = "A microscope for attention heads, in your browser: nothing to install."


def share_tags(title: str, text: str, address: str, picture: str) -> str:
    """The tags of a page's head. ``picture`` describes the image in words; without it there is none.

    An image is found by readers of links only under a whole address: without ``address`` the path stands alone.
    """
    place = f"{address.rstrip('/')}/" if address else ""
    tags = {"og:type": "website", "og:title": title or "headscope", "og:description": text or DESCRIPTION}
    if address:
        tags["og:url"] = place
    if picture:
        tags |= {"og:image": f"{place}{IMAGE}", "og:image:alt": picture}
        tags |= {"og:image:width": str(WIDTH), "og:image:height": str(HEIGHT)}
    shown = [f'<meta property="{name}" content="{html.escape(value)}" />' for name, value in tags.items()]
    shown.append(f'<meta name="description" content="{html.escape(tags["og:description"])}" />')
    shown.append(f'<meta name="twitter:card" content="{"summary_large_image" if picture else "summary"}" />')
    return "\n    ".join(shown)


def share_image(look: Look) -> bytes:
    """The patterns of all heads in a grid, layer by layer, as a PNG file."""
    patterns = [pattern.numpy() for site in look.shape.sites for pattern in look.patterns(site)]
    columns, rows, tile = _grid(len(patterns))
    left, top = (WIDTH - columns * tile) // 2, (HEIGHT - rows * tile) // 2
    inner = max(1, tile - max(2, tile // 12))
    image = np.full((HEIGHT, WIDTH), LEVELS, dtype=np.uint8)
    for number, pattern in enumerate(patterns):
        y, x = top + number // columns * tile, left + number % columns * tile
        image[y : y + inner, x : x + inner] = _drawn(pattern, inner)
    return _png(image)


def _grid(count: int) -> tuple[int, int, int]:
    """Columns, rows and the side of a tile in pixels: large tiles, and few places left empty."""
    choices = []
    for columns in range(1, count + 1):
        rows = ceil(count / columns)
        tile = min((WIDTH - 2 * MARGIN) // columns, (HEIGHT - 2 * MARGIN) // rows)
        choices.append((tile * count / (columns * rows), columns, rows, tile))
    return max(choices)[1:]


def _drawn(pattern: NDArray[np.float32], side: int) -> NDArray[np.uint8]:
    """A pattern as entries of the palette, stretched to a square; what lies after the query stays paper."""
    n_queries, n_keys = pattern.shape
    at_query, at_key = (np.arange(side) * length // side for length in (n_queries, n_keys))
    levels = np.sqrt(pattern.clip(0, 1)) * (LEVELS - 1)
    drawn = levels.round().astype(np.uint8)
    drawn[pattern == 0] = LEVELS
    stretched: NDArray[np.uint8] = drawn[at_query[:, None], at_key[None]]
    return stretched


def _png(image: NDArray[np.uint8]) -> bytes:
    """An image of palette entries as a PNG file."""
    height, width = image.shape
    palette = [weight_colour((level / (LEVELS - 1)) ** 2) for level in range(LEVELS)] + [PAPER]
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), image], axis=1)  # 0: no filter
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),  # 8 bits, 3: a palette
        (b"PLTE", bytes(part for colour in palette for part in colour)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    written = [struct.pack(">I", len(data)) + kind + data + _checksum(kind + data) for kind, data in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def _checksum(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))
