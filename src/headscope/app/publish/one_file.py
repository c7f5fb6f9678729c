"""Pack a static site into one .html file, which opens from a disk without server or network."""

from __future__ import annotations

import base64
import gzip
import html
from collections.abc import Iterator
from pathlib import Path

from headscope.app.export.html import STATIC, assemble

INSIDE = ("site.json", "answers", "models", "runtime", "api", "CITATION.cff")
WORKERS = ("assets/one-file-worker.js", "assets/one-file-training.js")
WORTH_IT = 0.97  # a file is compressed where it becomes smaller than this share of itself
SOURCES = "'wasm-unsafe-eval'"
POLICY = ("worker-src blob:",)  # beside the one script and its styles; the page connects to nothing


def one_file(folder: Path, title: str) -> bytes:
    """The site in this folder as one page. Python for the code of lessons and saved looks stay outside."""
    page = assemble("\n".join(_embedded(folder)), "one-file.html", POLICY, SOURCES)
    return page.replace("<title>headscope</title>", f"<title>{html.escape(title or 'headscope')}</title>", 1).encode()


def _embedded(folder: Path) -> Iterator[str]:
    """An element for each file; its type keeps a browser from running it."""
    for worker in WORKERS:
        yield _element(worker, (STATIC / worker).read_bytes())
    for part in INSIDE:
        place = folder / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                yield _element(path.relative_to(folder).as_posix(), path.read_bytes())


def _element(name: str, content: bytes) -> str:
    packed = b"" if name.endswith(".gz") else gzip.compress(content, 6, mtime=0)
    smaller = 0 < len(packed) < WORTH_IT * len(content)
    text = base64.b64encode(packed if smaller else content).decode("ascii")
    return f'<script type="text/plain" data-file="{html.escape(name)}"{" data-packed=gzip" * smaller}>{text}</script>'
