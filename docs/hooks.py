"""What `make docs` adds to the pages: those on errors, which live in the package so that an installed copy has them.

`make site` puts the pages beside a published microscope and sets ``HEADSCOPE_MICROSCOPE`` to its address, as seen from
their first page; the contents then begin with the microscope's own pages, whose bar links back.

And what it takes away: the theme's one script from elsewhere, which the search needs when a page is opened from the
disk, gives way to ours.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section
from mkdocs.utils import get_relative_url

EXPLAINED = Path(__file__).parent.parent / "src" / "headscope" / "explained"
MICROSCOPE = "HEADSCOPE_MICROSCOPE"
PAGES = {
    "Start": "start", "Learn": "learn", "Microscope": "microscope", "Four heads": "four-heads", "By hand": "by-hand",
    "One or many": "one-or-many", "Film": "film", "Real heads": "real", "Model cards": "cards", "Census": "census",
}  # fmt: skip
FIGURE = re.compile(r"^!\[[^\]]*\]\(images/fork\.png\)$", re.MULTILINE)
FROM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"


def on_files(files: Any, config: Any) -> Any:
    for page in sorted(EXPLAINED.glob("*.md")):
        files.append(File.generated(config, f"errors/{page.name}", abs_src_path=str(page)))
    return files


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    microscope = os.environ.get(MICROSCOPE)
    if microscope:
        links = [Link(title, f"{microscope}#{page}") for title, page in PAGES.items()]
        nav.items.insert(0, Section("In the browser", links))
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Beside a published microscope the first page's figure is live: each step of it has an address."""
    microscope = os.environ.get(MICROSCOPE)
    if not microscope or page.file.src_uri != "index.md":
        return markdown
    frame = f'<iframe src="{microscope}#fork/1" title="Attention in one figure" class="fork" loading="lazy"></iframe>'
    return FIGURE.sub(frame, markdown)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    return output_content.replace(FROM_ELSEWHERE, "worker.js")


def on_post_page(output: str, page: Any, config: Any) -> str:
    return output.replace(FROM_ELSEWHERE, get_relative_url("worker.js", page.url))
