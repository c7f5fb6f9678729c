"""The fourteen tasks of docs/tasks run, in at most the lines that TransformerLens needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from docs.generate.tasks import TASKS, THEIRS, lines
from tests.docs.workbench import furnish

SCRIPTS = sorted(TASKS.glob("*.py"))
SAVED = {"04": "patching.svg", "05": "attribution.svg", "08": "changes.svg", "10": "overlay.png", "11": "pattern.pdf"}
MAGIC = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tasks")
    furnish(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_script_runs_as_it_stands(script: Path, folder: Path) -> None:
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file = SAVED.get(script.name[:2])
    if file is None:
        assert done.stdout.strip()
    else:
        assert (folder / file).read_bytes().startswith(MAGIC[Path(file).suffix])


def test_each_script_needs_at_most_the_lines_of_transformer_lens() -> None:
    assert len(SCRIPTS) == 14
    for script in SCRIPTS:
        theirs = THEIRS / script.name
        assert theirs.exists() or script.stem == "10_vision", "TransformerLens opens no model that reads pictures"
        if theirs.exists():
            assert lines(script) <= lines(theirs), script.name
