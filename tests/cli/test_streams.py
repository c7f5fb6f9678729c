"""Output of commands as JSON, on narrow and colourless terminals, into closed pipes and full disks; and Ctrl-C."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, NoReturn

import pytest
from docs.generate.commands import commands

from tests.cli.commands import Done, Line, run_all
from tests.models import tiny

pytestmark = pytest.mark.slow

TEXT = "The horse crossed the road because the horse was tired"
CENSUS = ("scan", "small", "-c", "book.txt", "--context", "64", "--max-tokens", "300")

JSON = {
    "look": ("look", TEXT, "--head", "3.5", "--class", "none=[0-9]"),
    "ablate": ("ablate", TEXT, "--head", "3.5"),
    "generate": ("generate", "Alice was", "-n", "3"),
    "heads": ("heads", "--papers"),
    "scan": (*CENSUS, "-o", "one"),
    "compare": ("compare", "one", "one"),
    "doctor": ("doctor",),
    "check": ("doctor", "small"),
    "patch": ("patch", "The cat and the", "The dog and the", "--token", " cat", "--minus", " dog"),
    "attribution": ("attribution", TEXT),
    "importance": ("importance", TEXT, "--how", "gradient"),
    "composition": ("circuit", "--composition", "k"),
    "fetch": ("fetch", "--list"),
    "sources": ("sources", "Anna lives here.", "Bob lives there.", "-q", "Anna lives"),
    "prune": ("prune", "--head", "3.5", "-o", "smaller"),
    "card": ("card", "gpt2", "phi-4-mini"),
    "learn": ("learn", "3"),
    "learn worksheet": ("learn", "worksheet", "--seed", "7"),
    "why": ("why", TEXT, "--head", "3.5"),
    "trace": ("trace", TEXT),
    "circuit": ("circuit", "pairs.csv", "--wanted", "0.1"),
    "learn exercise": ("learn", "exercise", "mine.py"),
    "explain": ("explain", "shape"),
    "publish": ("publish", "small", "--i-may", "--out", "site"),
}
SHOWN = {
    "look": ("look", TEXT),
    "one head": ("look", TEXT, "--head", "3.5"),
    "cards": ("card", "gpt2", "phi-4-mini"),
    "lesson": ("learn", "3"),
    "page": ("explain", "ShapeError"),
}
PRINTED = {
    "rich": ("explain",),
    "echo": ("learn",),
    "print": ("learn", "build", "--d-model", "16", "--heads", "2"),
    "json": ("card", "gpt2", "--json"),
}
LONG = {
    "generate": ("generate", "Alice was", "-n", "9000"),
    "heads": ("heads",),
    "prune": ("prune", "--keep", "0.5", "-t", "book.txt", "-o", "interrupted"),
    "scan": ("scan", "-c", "book.txt", "-o", "stopped"),
    "train": ("train", "-c", "book.txt", "-o", "run", "--layers", "2"),
}
PAIRED = (("cat", "dog"), ("sun", "sea"), ("man", "boy"), ("red", "blue"))
PAIRS = "\n".join(
    ["clean,corrupted,right,wrong"] + [f"The {a} one and the {a},The {b} one and the {b}, one, two" for a, b in PAIRED]
)
COLOUR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])\b[0-9;]*m")
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def lines() -> dict[str, Line]:
    asked = {f"json {name}": Line((*words, "--json")) for name, words in JSON.items()}
    asked |= {f"terminal {name}": Line(words, "terminal") for name, words in SHOWN.items()}
    plain = SHOWN | {"build": PRINTED["print"]}
    asked |= {f"plain {name}": Line(words, "terminal", {"NO_COLOR": "1"}) for name, words in plain.items()}
    for kind in ("closed pipe", "full disk"):
        asked |= {f"{kind} {name}": Line(words, kind) for name, words in PRINTED.items()}
    asked["ascii"] = Line(PRINTED["print"], environment={"PYTHONIOENCODING": "ascii"})
    asked |= {f"interrupted {name}": Line(words, interrupted=300) for name, words in LONG.items()}
    return asked


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "book.txt").write_text("The horse crossed the road because it was tired. " * 9000, encoding="utf-8")
    (folder / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    tiny.llama(max_position_embeddings=1280).save_pretrained(folder / "small")  # for what takes long on a real one
    tiny.tokenizer().save_pretrained(folder / "small")
    outcomes = run_all(lines(), folder)
    outcomes["made"] = Done(0, " ".join(path.name for path in folder.iterdir()), "")
    return outcomes


def not_json(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def read(done: Done) -> Any:
    assert done.status == 0, done.err
    assert done.out.endswith("\n")
    return json.loads(done.out, parse_constant=not_json)


@pytest.mark.parametrize("name", JSON)
def test_json_output_is_one_valid_value(name: str, done: dict[str, Done]) -> None:
    assert read(done[f"json {name}"])["schema_version"] == 1


def test_every_command_with_json_is_tested() -> None:
    offered = {name for name, command in commands() if any("--json" in option.opts for option in command.params)}
    assert offered == JSON.keys() - {"check", "composition"}


def test_json_output_answers_the_command(done: dict[str, Done]) -> None:
    values = {name: read(done[f"json {name}"]) for name in JSON}
    assert "".join(values["look"]["tokens"]).endswith(TEXT)
    assert values["ablate"]["heads"] == ["3.5"]
    assert values["prune"]["removed"] == ["3.5"]
    assert [card["name"] for card in values["card"]["cards"]] == ["gpt2", "phi-4-mini"]
    assert values["explain"]["kind"] == "ShapeError"
    assert all(row["difference"] == 0 for row in values["compare"]["changes"])


@pytest.mark.parametrize("name", SHOWN)
def test_output_fits_a_terminal_of_forty_columns(name: str, done: dict[str, Done]) -> None:
    status, out, err = done[f"terminal {name}"]
    assert (status, err) == (0, "")
    rows = STYLE.sub("", out).replace("\r", "").splitlines()
    assert len(rows) > 3
    assert max(map(len, rows)) <= 40


def test_no_color_removes_colours_only(done: dict[str, Done]) -> None:
    coloured = {name for name in SHOWN if COLOUR.search(done[f"terminal {name}"].out)}
    assert coloured >= {"one head", "lesson", "page"}
    for name in SHOWN:
        plain = done[f"plain {name}"].out
        assert not COLOUR.search(plain), name
        assert STYLE.sub("", plain).split() == STYLE.sub("", done[f"terminal {name}"].out).split()
    assert "\x1b" not in done["plain build"].out


@pytest.mark.parametrize("name", PRINTED)
def test_a_closed_pipe_prints_no_error(name: str, done: dict[str, Done]) -> None:
    """As in ``headscope learn | head -1``."""
    assert (done[f"closed pipe {name}"].status, done[f"closed pipe {name}"].err) == (1, "")


@pytest.mark.parametrize("name", PRINTED)
def test_a_full_disk_is_one_error_line(name: str, done: dict[str, Done]) -> None:
    full = done[f"full disk {name}"]
    assert (full.status, full.err) == (1, "error: standard output: No space left on device\n")


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_ends_any_command_with_status_130_and_no_trace(name: str, done: dict[str, Done]) -> None:
    status, _, err = done[f"interrupted {name}"]
    assert status == 130, err
    assert "Traceback" not in err


def test_ctrl_c_leaves_no_partial_model(done: dict[str, Done]) -> None:
    assert "interrupted" not in done["made"].out.split()


def test_ctrl_c_during_import_prints_nothing() -> None:
    script = """
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from headscope.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_ascii_terminal_gets_question_marks(done: dict[str, Done]) -> None:
    status, out, err = done["ascii"]
    assert (status, err) == (0, "")
    assert out.isascii()
    assert "split: q        2 ? 2 ? 6 ? 8" in out
