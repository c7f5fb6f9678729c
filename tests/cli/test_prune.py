"""``headscope prune`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.errors import HeadNameError, HeadscopeError, InputError


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["prune", *words])
    if isinstance(done.exception, HeadscopeError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_share_is_kept_and_the_folder_opens(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("The horse crossed the road because it was tired. " * 3, encoding="utf-8")
    words = ["--keep", "0.5", "--even", "--by", "gradient", "--texts", str(book), "--out", f"{tmp_path}/new", "--json"]
    response = json.loads(run(*words))
    assert (len(response["removed"]), response["plain"], response["folder"]) == (32, True, f"{tmp_path}/new")
    assert response["loss_nats"]["before"] < response["loss_nats"]["after"]
    with headscope.load(response["folder"]) as scope:
        assert scope.shape.n_heads == 32


def test_named_heads_are_removed(tmp_path: Path) -> None:
    response = run("--head", "3.5", "--head", "4.1", "--head", "0.0", "--out", str(tmp_path / "new"))
    assert "3 of 64 heads removed, 61 left" in response
    assert "removed 0.0, 3.5, 4.1" in response
    assert "headscope serve" in response


def test_invalid_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = str(tmp_path / "new")
    with pytest.raises(InputError, match=r"keep=0\.0: give the share of heads to keep"):
        run("--keep", "0", "-o", out)
    with pytest.raises(HeadNameError, match=r"12\.1: this model has layers 0–7"):
        run("--head", "12.1", "-o", out)
    with pytest.raises(InputError, match="--by chance: heads are ranked by exact or gradient"):
        run("--keep", "0.5", "--by", "chance", "-o", out)
    with pytest.raises(InputError, match="exists and is not empty"):
        run("--keep", "0.5", "-o", str(Path(__file__).parent))
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"there is no text to measure on in .*empty\.txt"):
        run("--keep", "0.5", "-t", str(tmp_path / "empty.txt"), "-o", out)
    assert not Path(out).exists()


def test_help_has_an_example() -> None:
    assert "headscope prune gpt2 --keep 0.7" in CliRunner().invoke(app, ["prune", "--help"]).output
