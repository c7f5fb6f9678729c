"""``headscope rules``: sentences as text and JSON, rules of one's own, and a file that opens again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.errors import InputError
from headscope.lab.teach.course.passages import lesson_passages
from tests.heads.conftest import small_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with the embedded model's tokenizer."""
    from transformers import AutoTokenizer

    from headscope.scope import EMBEDDED

    path = tmp_path_factory.mktemp("model")
    model = small_llama()
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["rules", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def passages(folder: Path) -> str:
    path = folder / "book.txt"
    path.write_text("\n".join(text[:300] for text in lesson_passages()[:3]) + "\n")
    return str(path)


def test_every_head_gets_a_line_and_the_file_opens_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rules.json"
    lines = run(str(folder), "--count", "3", "--no-tables", "--out", str(out)).splitlines()
    saved = headscope.open_rules(out)
    assert [line.split()[0] for line in lines[:18]] == [str(head.head) for head in saved]
    for line, head in zip(lines, saved, strict=False):
        assert head.sentence in line


def test_json_holds_what_the_scope_returns_and_its_cost(folder: Path, tmp_path: Path) -> None:
    words = (str(folder), "--count", "3", "--no-tables", "--class", "vowels=[aeiou]", "--cost", "--json")
    written = json.loads(run(*words))
    assert {"vowels", "last vowels"} <= set(written["recipe"]["rules"])
    assert len(written["heads"]) == 18
    assert {"sentence", "gain", "rest", "null_gain", "rules", "position", "with_table"} <= set(written["heads"][0])
    assert set(written["cost"]["summary"]) >= {"random 25%", "random 50%", "most important 25%"}


def test_too_few_texts_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 texts: rules are fitted on some texts"):
        run(str(folder), "--texts", passages(tmp_path))
