"""``headscope card``: the same numbers in a table, side by side and as JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import HeadscopeError, InputError
from headscope.lab.cards import card
from headscope.lab.cards.card_text import size


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["card", *words])
    if isinstance(done.exception, HeadscopeError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_length_that_is_asked_for_counts_in_every_form() -> None:
    expected = card.card("gpt2").kv_bytes(777)
    written = json.loads(run("gpt2", "--length", "777", "--json"))["cards"][0]
    assert (written["lengths"], written["cache"]) == ([777], [expected])
    assert f"{size(expected)} in fp16" in run("gpt2", "--length", "777")
    row = next(line for line in run("gpt2", "gpt2-xl", "--length", "777").splitlines() if "KV cache at" in line)
    assert row.startswith("KV cache at 777, fp16")
    assert size(expected) in re.sub(" +", " ", row)


def test_zero_kv_heads_are_refused() -> None:
    with pytest.raises(InputError, match="0 KV heads"):
        run("--d-model", "64", "--heads", "8", "--kv-heads", "0")
