"""Every file path in docs/architecture.md and in its drawing exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PATH = re.compile(r"(?:[\w-]+/)+(?:[\w-]+\.\w+)?|[\w-]+\.py\b")


def _paths() -> list[str]:
    page = re.findall(r"`([^`]+)`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    drawing = re.findall(r'class="mono">([^<]+)<', (DOCS / "images" / "architecture.svg").read_text(encoding="utf-8"))
    return sorted({path for text in (*page, *drawing) for path in PATH.findall(text) if not text.startswith("/")})


def test_the_page_names_files_of_every_package() -> None:
    named = _paths()
    assert len(named) > 100
    for package in ("attention", "models", "heads", "scan", "lab", "app", "cli", "web"):
        assert [path for path in named if path.startswith(f"{package}/")]


@pytest.mark.parametrize("path", _paths())
def test_every_path_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "src" / "headscope" / path).exists()
