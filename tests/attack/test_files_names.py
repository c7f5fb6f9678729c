"""Names of models and files that hold escape sequences reach no terminal: not in answers, errors, tables or JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headscope.cli.options import say, show, show_json
from headscope.names import printable
from tests.heads.conftest import small_llama

EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202egnp.\x7f"
OBEYED = {chr(code) for code in (*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x202E)}


def obeyed(text: str) -> set[str]:
    """The characters in it that a terminal would act on."""
    return OBEYED & set(text)


def run(*args: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from headscope.cli import main; main()", *args]
    env = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, cwd=folder)


@pytest.fixture(scope="module")
def evil_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / EVIL
    small_llama().save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_check_shows_the_name_of_a_model_and_does_not_obey_it(evil_model: Path) -> None:
    done = run("doctor", str(evil_model))
    assert done.returncode == 0, done.stderr
    assert "]0;owned" in done.stdout
    assert not obeyed(done.stdout + done.stderr)


@pytest.mark.slow
def test_what_libraries_say_of_a_model_is_not_obeyed(tmp_path: Path) -> None:
    """transformers quotes an unknown rope_type in a message of its own."""
    small_llama().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"rope_parameters": {"rope_type": EVIL}}))
    done = run("doctor", str(tmp_path))
    assert (done.returncode, "rope_type" in done.stderr) == (1, True)
    assert not obeyed(done.stdout + done.stderr)


@pytest.mark.slow
def test_errors_show_names_and_do_not_obey_them(tmp_path: Path) -> None:
    (tmp_path / EVIL).mkdir()
    (tmp_path / EVIL / EVIL).write_text("x")
    for args in (
        ("doctor", EVIL),
        ("look", "hello", "--head", EVIL),
        ("scan", "--corpus", f"{EVIL}/none", "--out", "out"),
    ):
        done = run(*args, folder=tmp_path)
        assert done.returncode == 1
        assert "]0;owned" in done.stderr
        assert not obeyed(done.stdout + done.stderr), args


def test_tables_and_json_show_names_too(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("name")
    table.add_row(EVIL)
    for what in (table, EVIL, Path(EVIL)):
        show(what)
    say(EVIL)
    assert not obeyed(capsys.readouterr().out)
    show_json({"name": EVIL, "plain": "é � ⏎"})
    written = capsys.readouterr().out
    assert not obeyed(written)
    assert json.loads(written) == {"schema_version": 1, "name": EVIL, "plain": "é � ⏎"}, (
        "a program reads what was there"
    )


def test_text_of_every_script_is_printed_unchanged() -> None:
    assert printable("naïve 日本語 עברית 🙂\n\ttab") == "naïve 日本語 עברית 🙂\n\ttab"
