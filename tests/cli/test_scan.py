"""``headscope scan``: which texts it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import HeadscopeError, InputError
from tests.models import tiny

FIRST, SECOND = "the horse crossed the road " * 40, "a white cat slept by the river " * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scans")
    tiny.llama(max_position_embeddings=128).save_pretrained(path / "small")
    tiny.tokenizer().save_pretrained(path / "small")
    (path / "first.txt").write_text(FIRST, encoding="utf-8")
    (path / "second.txt").write_text(SECOND, encoding="utf-8")
    return path


def scan(folder: Path, out: Path, *words: str, given: bytes = b"") -> dict[str, Any]:
    line = ["scan", str(folder / "small"), "--context", "64", "-o", str(out), "--json", *words]
    done = CliRunner().invoke(app, line, input=given)
    if isinstance(done.exception, HeadscopeError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_several_corpora_are_files_each_and_not_texts(folder: Path, tmp_path: Path) -> None:
    parts = [str(folder / name) for name in ("first.txt", "second.txt")]
    both = scan(folder, tmp_path / "both", "-c", parts[0], "-c", parts[1])
    alone = [scan(folder, tmp_path / f"{number}", "-c", part) for number, part in enumerate(parts)]
    assert [entry["file"] for entry in both["recipe"]["corpus"]] == ["first.txt", "second.txt"]
    tokens = [one["recipe"]["result"]["tokens"] for one in (both, *alone)]
    assert tokens[0] == tokens[1] + tokens[2]
    assert both["rows"] == scan(folder, tmp_path / "glob", "-c", str(folder / "*.txt"))["rows"]


def test_standard_input_among_other_corpora_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="- is standard input, and cannot be combined with files; leave out the 1 others"
    ):
        scan(folder, tmp_path / "out", "-c", "-", "-c", str(folder / "first.txt"), given=SECOND.encode())


def test_a_folder_that_is_not_a_scan_s_is_left_as_it_was(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds thesis.txt, which is not a scan's; choose an empty folder"):
        scan(folder, tmp_path, "-c", str(folder / "first.txt"))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
