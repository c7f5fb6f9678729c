"""The command line: version, help, errors and exports."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from headscope import __version__
from headscope.app.wire import unpack
from headscope.cli import app


def test_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output.strip()) == (0, f"headscope {__version__}")


def test_help_names_the_commands() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "serve" in done.output
    assert "build" in done.output


def test_build_prints_the_shapes() -> None:
    done = CliRunner().invoke(app, ["build", "--d-model", "16", "--heads", "2"])
    assert done.exit_code == 0
    assert "All checks pass." in done.output


def test_a_headscope_error_is_one_line_its_page_and_status_one() -> None:
    command = "import sys; sys.argv = ['headscope', 'build', '--heads', '7']; from headscope.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    response = done.stderr.splitlines()
    assert response[0].startswith("error: d_model=768 does not divide into n_heads=7")
    assert response[1:] == ["more: headscope explain ShapeError"]


def test_look_saves_the_microscope_as_one_file(tmp_path: Path) -> None:
    text = "The old lamp burned."
    done = CliRunner().invoke(app, ["look", text, "--save", str(tmp_path / "look.html")])
    assert done.exit_code == 0, done.output
    assert f"saved {tmp_path / 'look.html'}" in done.output.replace("\n", "")
    data = re.search(r'id="headscope-data">([^<]+)<', (tmp_path / "look.html").read_text(encoding="utf-8"))
    assert data is not None
    look = unpack(unpack(base64.b64decode(data[1])).arrays["look"].tobytes())
    assert look.values["text"].endswith(text)
