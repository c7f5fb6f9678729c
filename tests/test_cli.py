"""The command line: version, help, errors and exports."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs.generate import commands as commands_page
from typer.main import get_command
from typer.testing import CliRunner

from headscope import __version__
from headscope.app.wire import unpack
from headscope.cli import app, main
from headscope.cli.options import GROUPS
from headscope.heads.look.look import Look


def test_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output.strip()) == (0, f"headscope {__version__}")


def test_help_groups_every_command_and_says_its_whole_sentence() -> None:
    shown = " ".join(CliRunner().invoke(app, ["-h"], terminal_width=80).output.split())
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {name for names in GROUPS.values() for name in names} == commands.keys()
    for title, names in GROUPS.items():
        assert f"{title}: {names[0]}" in shown
    for name, command in commands.items():
        assert f"{name} {' '.join(command.help.split(chr(10) * 2)[0].split())}" in shown
        assert CliRunner().invoke(app, [name, "-h"]).exit_code == 0
    assert "..." not in shown.replace("[ARGS]...", "")


def test_one_word_means_one_thing_in_every_command() -> None:
    flags: dict[str, set[str]] = {}
    for _, command in commands_page.commands():
        for one in (one for one in command.params if one.param_type_name == "option"):
            flags.setdefault(min(one.opts, key=len), set()).add(max(one.opts, key=len))
    assert {short: words for short, words in flags.items() if len(words) > 1} == {"-n": {"--count", "--tokens"}}
    assert not {"--off", "--text-file", "--through"} & set().union(*flags.values())


@pytest.mark.parametrize(
    ("typed", "status", "kind", "way_out"),
    [
        (["look", "hi", "--head", "99.1"], 1, "HeadNameError", "headscope explain HeadNameError"),
        (["why"], 2, "UsageError", "headscope why --help"),
        (["learn", "worksheet", "--seed", "x"], 2, "UsageError", "headscope learn worksheet --help"),
    ],
)
def test_an_error_is_json_where_json_is_asked_for(
    typed: list[str], status: int, kind: str, way_out: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["headscope", *typed, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert (ended.value.code, error["kind"], error["try"], printed.err) == (status, kind, way_out, "")
    assert error["message"]


def test_count_limits_rows_in_print_and_in_json() -> None:
    clean, corrupted = "Mary and John met. John saw", "Mary and John met. Mary saw"
    for words, rows in (
        (["patch", clean, corrupted, "--token", " Mary", "--minus", " John"], "effects"),
        (["attribution", clean], "heads"),
        (["importance", clean, "--how", "gradient"], "heads"),
    ):
        few = CliRunner().invoke(app, [*words, "-n", "2", "--json"], catch_exceptions=False)
        whole = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        assert (len(json.loads(few.output)[rows]), len(json.loads(whole.output)[rows])) == (2, 64)
        printed = CliRunner().invoke(app, [*words, "-n", "2"], catch_exceptions=False).output
        assert "62 more" in printed


def test_build_prints_the_shapes() -> None:
    done = CliRunner().invoke(app, ["learn", "build", "--d-model", "16", "--heads", "2"])
    assert done.exit_code == 0
    assert "All checks pass." in done.output


def test_a_headscope_error_is_one_line_its_page_and_status_one() -> None:
    command = (
        "import sys; sys.argv = ['headscope', 'learn', 'build', '--heads', '7']; from headscope.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    response = done.stderr.splitlines()
    assert response[0].startswith("error: d_model=768 does not divide into n_heads=7")
    assert response[1:] == ["more: headscope explain ShapeError"]


def test_look_saves_the_microscope_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Look, "app", None)  # as in a new process
    text = "The old lamp burned."
    done = CliRunner().invoke(app, ["look", text, "--save", str(tmp_path / "look.html")])
    assert done.exit_code == 0, done.output
    assert f"saved {tmp_path / 'look.html'}" in done.output.replace("\n", "")
    data = re.search(r'id="headscope-data">([^<]+)<', (tmp_path / "look.html").read_text(encoding="utf-8"))
    assert data is not None
    look = unpack(unpack(base64.b64decode(data[1])).arrays["look"].tobytes())
    assert look.values["text"].endswith(text)
