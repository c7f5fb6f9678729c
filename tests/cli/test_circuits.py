"""``headscope composition``: pairs of heads by their scores, as a table and as JSON, and models named in one way."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.errors import InputError


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["composition", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_composition_pairs_equal_the_scope_s() -> None:
    pairs = json.loads(run("--count", "3", "--json"))
    with headscope.load() as scope:
        for pair in pairs:
            score = scope.composition(pair["writer"], pair["reader"], "k")
            assert pair["score"] == pytest.approx(score, rel=1e-4)
    assert [pair["score"] for pair in pairs] == sorted((pair["score"] for pair in pairs), reverse=True)


def test_the_table_names_writer_reader_and_score() -> None:
    title, first, *_ = run("--through", "v", "--count", "2").splitlines()
    assert title.split() == ["writer", "reader's", "v", "score"]
    assert len(first.split()) == 3


def test_two_models_are_refused() -> None:
    with pytest.raises(InputError, match="two models are named, one and --model two; give one of them"):
        run("one", "--model", "two")
