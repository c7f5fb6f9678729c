"""``headscope ablate`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headscope
from headscope.app.json_output import ablation_json
from headscope.cli import app
from headscope.errors import HeadscopeError, InputError

TEXT = "When Mary and John went to the shop, John gave a book to"
BOOK = "The horse crossed the road because it was tired. Nobody in the town had seen it go."
HEADS = ["--head", "5.6", "--head", "4.3"]


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["ablate", TEXT, *HEADS, *words, "--json"])
    if isinstance(done.exception, HeadscopeError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.output)  # type: ignore[no-any-return]


@pytest.mark.parametrize("how", ["mean", "resample"])
def test_resampled_heads_use_the_given_texts(how: str, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK, encoding="utf-8")
    response = run("--how", how, "--texts", str(tmp_path / "book.txt"))
    with headscope.load() as scope:
        before = scope.look(TEXT)
        with scope.edit(headscope.ablate("5.6", "4.3", how=how, texts=[BOOK])):
            expected = ablation_json(before, scope.look(TEXT), ["5.6", "4.3"])
    assert response["kl_nats"] == pytest.approx(expected["kl_nats"], rel=1e-4)
    assert response["kl_nats"] > 0
    assert response["heads"] == ["5.6", "4.3"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--how", "resample"], "--how resample draws the heads' outputs on other texts; name them, as in --texts"),
        (["--texts", "book.txt"], "--texts is for --how mean and --how resample; zero needs none"),
        (["--how", "mean", "--texts", "no/such.txt"], "no such file, folder or pattern"),
    ],
)
def test_missing_or_unused_texts_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(*words)
