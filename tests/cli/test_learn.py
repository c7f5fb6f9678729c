"""``headscope learn`` on the command line."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from headscope.cli import app


def test_the_block_to_change_is_the_same_as_text_and_as_json() -> None:
    plain = CliRunner().invoke(app, ["learn", "3", "--code"])
    written = CliRunner().invoke(app, ["learn", "3", "--code", "--json"])
    assert json.loads(written.stdout) == {"schema_version": 1, "code": plain.stdout}
