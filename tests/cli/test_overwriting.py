"""No command saves over what it reads, or over what it has just saved."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import InputError

LINES = [
    "circuit pairs.csv --out ./pairs.csv",
    "circuit pairs.csv --out link.csv",
    "look photo.png --save photo.png",
]


@pytest.mark.parametrize("line", LINES)
def test_what_is_read_is_not_written_over(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before a model is opened."""
    monkeypatch.chdir(tmp_path)
    for file in ("pairs.csv", "photo.png"):
        Path(file).write_text("The horse crossed the road because it was tired. " * 100, encoding="utf-8")
    Path("link.csv").symlink_to("pairs.csv")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    done = CliRunner().invoke(app, [*line.split(), "--model", "no/such"])
    assert isinstance(done.exception, InputError)
    assert "is read by this command and would be written over; give another name" in str(done.exception)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_text_longer_than_a_name_that_ends_like_a_picture_is_a_text() -> None:
    done = CliRunner().invoke(app, ["look", "a horse " * 60 + "and its picture.png"])
    assert done.exit_code == 0, done.exception
