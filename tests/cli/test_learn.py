"""``headscope learn`` on the command line."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from headscope.cli import app
from headscope.lab.teach.puzzle import puzzle


def test_the_block_to_change_is_the_same_as_text_and_as_json() -> None:
    plain = CliRunner().invoke(app, ["learn", "3", "--code"])
    written = CliRunner().invoke(app, ["learn", "3", "--code", "--json"])
    assert json.loads(written.stdout) == {"schema_version": 1, "code": plain.stdout}


def test_a_puzzle_is_set_and_an_answer_to_it_is_told() -> None:
    made = puzzle(2, 7)
    ask = ["learn", "puzzle", "--level", "2", "--seed", "7"]
    page = CliRunner().invoke(app, ask).stdout
    assert "2 of 4 heads have a job" in page
    assert f"headscope serve {made.name}" in page
    answer = "; ".join(f"{head}={rule}" for head, rule in made.solution.items())
    told = json.loads(CliRunner().invoke(app, [*ask, "--answer", answer, "--json"]).stdout)["told"]
    assert [one["right"] for one in told] == [True, True]
