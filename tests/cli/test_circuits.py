"""``headscope circuit --composition``: pairs of heads by their scores, as lines and as JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.errors import InputError


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["circuit", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_composition_pairs_equal_the_scope_s() -> None:
    pairs = json.loads(run("--composition", "k", "--count", "3", "--json"))["pairs"]
    with headscope.load() as scope:
        for pair in pairs:
            score = scope.composition(pair["writer"], pair["reader"], "k")
            assert pair["score"] == pytest.approx(score, rel=1e-4)
    assert [pair["score"] for pair in pairs] == sorted((pair["score"] for pair in pairs), reverse=True)


def test_the_table_names_writer_reader_and_score() -> None:
    title, *pairs = run("--composition", "v", "--count", "2").splitlines()
    assert title == "Composition: what the v of a later head reads of an earlier one"
    assert [re.fullmatch(r"  \S+ +→ \S+ +0\.\d{3}", pair) is not None for pair in pairs] == [True, True]


def test_a_task_and_compositions_are_not_asked_at_once() -> None:
    for words in ((), ("induction", "--composition", "k")):
        with pytest.raises(InputError, match="give a task, as in `headscope circuit induction`, or --composition"):
            run(*words)


def test_two_models_are_refused() -> None:
    with pytest.raises(InputError, match="two models are named, one and --model two; give one of them"):
        CliRunner().invoke(app, ["doctor", "one", "--model", "two"], catch_exceptions=False)
