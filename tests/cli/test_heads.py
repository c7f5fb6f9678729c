"""``headscope heads`` and the user's own questions, on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headscope.cli import app
from headscope.errors import InputError, ModelError
from headscope.heads.roles.report import Report

REPORT = Path(__file__).parents[2] / "bench" / "results" / "heads" / "embedded.json"


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def as_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def test_published_claims_are_listed_without_weights() -> None:
    response = run("heads", "--papers")
    assert "gpt2\n  name mover: 9.9, 10.0, 9.6. Wang et al. 2022" in response
    assert "induction: 5.1 0.99, 6.9 0.97" in response
    listed = as_json("heads", "--papers")["papers"]
    assert {"head": "18.0", "outcome": "not tested"}.items() <= {
        key: value for claim in listed if claim["head"] == "18.0" for key, value in claim.items()
    }.items()


def test_a_missing_model_still_shows_its_published_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    done = CliRunner().invoke(app, ["heads", "nobody/gpt2-xl", "--papers"])
    assert done.exit_code == 0, done.output
    assert "induction: 17.6 0.99, 16.3" in done.output
    assert "published claims only: nobody/gpt2-xl is not on this machine" in done.output
    with pytest.raises(ModelError, match="nobody/unheard-of is not on this machine"):
        run("heads", "nobody/unheard-of", "--papers")


def test_a_head_is_described_by_its_tests_and_by_where_it_looks() -> None:
    said = Report.from_dict(json.loads(REPORT.read_text(encoding="utf-8"))).sentence("5.6")
    assert re.match(r"Induction: finds an earlier copy .*\. On 12 ordinary texts of up to \d+ tokens, \d+%", said)


def test_a_class_of_tokens_is_tested_like_a_role(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("Anne had 3 dogs and 4 cats. " * 180, encoding="utf-8")
    report = as_json("heads", "--class", "digits=[0-9]", "--texts", str(tmp_path / "texts.txt"), "--inputs", "8")
    (trial,) = report["trials"]
    assert (trial["role"], trial["tested"], len(trial["scores"])) == ("digits", True, 64)
    with pytest.raises(InputError, match="'digits' is not a class of tokens; write NAME=PATTERN"):
        run("heads", "--class", "digits")
    with pytest.raises(InputError, match="--texts holds the texts for --class; give a class too"):
        run("heads", "--texts", str(tmp_path / "texts.txt"))


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="there is already a class named 'x'; choose another name"):
        run("look", "hello", "--class", "x=h", "--class", "x=l")


def test_a_class_of_tokens_is_measured_in_one_look() -> None:
    text = "He had 3 dogs, 4 cats, and 12 birds."
    found = as_json("look", text, "--class", "digits=[0-9]")["own_questions"]["digits"]
    assert len(found) == 64
    assert 0.2 < max(found.values()) <= 1
    assert "commas: no row of this text can answer it" in run("look", "No marks here", "--class", "commas=,")
