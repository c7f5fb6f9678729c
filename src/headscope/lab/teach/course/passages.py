"""Passages of headscope's own lessons: English prose, code and lists that ship with the program."""

from __future__ import annotations

from pathlib import Path

CHARACTERS = 1000
FOLDER = Path(__file__).parents[1] / "lessons"


def lesson_passages(characters: int = CHARACTERS) -> list[str]:
    """Passages of this many characters, one from each lesson in turn."""
    pages = [file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))]
    starts = range(0, max(map(len, pages)), characters)
    passages = [page[start : start + characters].strip() for start in starts for page in pages]
    return [passage for passage in passages if len(passage) > characters // 2]
