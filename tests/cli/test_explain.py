"""headscope why and trace: the same numbers as from Python, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import headscope
from headscope.cli.commands import app

RUN = CliRunner()
TEXT = "My white horse drank at the river. My white horse drank at the"


def test_why_prints_the_sentence_and_json_has_its_numbers() -> None:
    with headscope.load() as scope:
        look = scope.look(TEXT)
        head = str(scope.shape.heads()[-1])
        expected = look.why(head, -1, " river")
    printed = RUN.invoke(app, ["why", TEXT, "--head", head, "--key", "river"])
    made = json.loads(RUN.invoke(app, ["why", TEXT, "--head", head, "--key", "river", "--json"]).stdout)
    assert printed.stdout.startswith(expected.sentence[:60])
    assert made["total"] == pytest.approx(expected.total, abs=1e-4)
    assert made["head"] == head


def test_trace_prints_the_tree_and_json_has_its_numbers() -> None:
    with headscope.load() as scope:
        look = scope.look(TEXT)
        best = look.predictions(count=1)[0]
        expected = look.trace(best.token.id)
    printed = RUN.invoke(app, ["trace", TEXT])
    made = json.loads(RUN.invoke(app, ["trace", TEXT, "--json"]).stdout)
    assert expected.sentence.split(":")[0] in printed.stdout
    assert made["total"] == pytest.approx(expected.total, abs=1e-3)


def test_a_key_after_the_query_is_a_sentence() -> None:
    done = RUN.invoke(app, ["why", TEXT, "--head", "1.0", "--query", "2", "--key", "5"])
    assert done.exit_code == 1
    assert "does not see key 5" in str(done.exception)
