"""At most fifteen source files stand side by side in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {".py", ".ts", ".js", ".mjs", ".svelte", ".css"}
MOST = 15


@pytest.mark.parametrize("tree", ["src", "web/src", "tests"])
def test_no_folder_holds_more_than_fifteen_source_files(tree: str) -> None:
    folders = [folder for folder in (ROOT / tree, *(ROOT / tree).rglob("*/")) if "static" not in folder.parts]
    sources = {
        folder: [file.name for file in folder.iterdir() if file.suffix in SOURCES and file.stem != "__init__"]
        for folder in folders
    }
    assert any(sources.values())
    assert {str(folder): names for folder, names in sources.items() if len(names) > MOST} == {}
