"""Run the code of the gallery and keep its pictures: ``python -m docs.generate.gallery docs/images/gallery``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "gallery.md"


def blocks() -> list[tuple[str, str]]:
    """The file that each section shows, and the code under it."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"\(images/gallery/(\S+\.svg)\)\n\n```python\n(.*?)```", text, re.DOTALL)


def draw(folder: Path) -> None:
    """Run every block in a folder, in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    names: dict[str, Any] = {}
    for file, code in blocks():
        exec(compile(code, file, "exec"), names)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
