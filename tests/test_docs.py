"""The documentation is true and whole: its code runs, its commands parse, and nothing public is without a page."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from docs.generate import commands as commands_page
from docs.generate import gallery
from typer.main import get_command
from typer.testing import CliRunner

import headscope
from headscope import attention, errors
from headscope.cli import app
from headscope.heads.look.look import Look
from headscope.scope import Scope

ROOT = Path(__file__).parent.parent
EXPLAINED = ROOT / "src" / "headscope" / "explained"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *EXPLAINED.glob("*.md")])
ERRORS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, errors.HeadscopeError)
]  # fmt: skip


def _fenced(text: str, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for language, block in found if language in languages]


def _named(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


WITH_PYTHON = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
LONG_PAGES = (
    "my-question",
    "notebook",
    "long-text",
    "prune",
    "gallery",
    "induction",
)  # seconds each: make test leaves them to make test-all


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=pytest.mark.slow if page.stem in LONG_PAGES else ())
        for page, name in zip(WITH_PYTHON, _named(WITH_PYTHON), strict=True)
    ],
)
def test_the_page_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(_fenced(text, "python")), str(page), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    for shown in "".join(_fenced(text, "text")).splitlines():
        assert shown in printed


def test_the_gallery_shows_twelve_pictures_of_at_most_five_lines() -> None:
    shown = gallery.blocks()
    assert len(shown) == 12
    for file, code in shown:
        assert f'save("{file}")' in code
        assert len(code.splitlines()) <= 5, file
        assert (ROOT / "docs" / "images" / "gallery" / file).is_file()


def _commands() -> list[tuple[str, list[str]]]:
    """Every ``headscope …`` line in a fenced block, and where it stands."""
    return [
        (str(page.relative_to(ROOT)), shlex.split(line, comments=True)[1:])
        for page in [*PAGES, ROOT / "README.md"]
        for block in _fenced(page.read_text(encoding="utf-8"), "", "bash", "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("headscope ")
    ]


def test_every_command_shown_parses() -> None:
    shown = _commands()
    assert len(shown) > 10
    known = get_command(app)
    for page, (name, *rest) in shown:
        command = known.commands.get(name)  # type: ignore[attr-defined]
        assert command is not None, f"{page}: headscope has no command {name!r}"
        command.make_context(name, list(rest))


def test_the_commands_of_the_makefile_parse() -> None:
    written = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = [shlex.split(line) for line in re.findall(r"^\t@?\$\(BIN\)/headscope (.+)", written, re.MULTILINE)]
    assert [name for name, *_ in found] == ["publish"]
    for name, *rest in found:
        get_command(app).commands[name].make_context(name, rest)  # type: ignore[attr-defined]


QUICK = {"card", "explain", "learn"}


def test_the_quick_commands_shown_run() -> None:
    tried = {tuple(words) for _, words in _commands() if words[0] in QUICK and words[1:2] != ["exercise"]}
    assert len(tried) > 3
    for words in sorted(tried):
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, f"{shlex.join(words)}: {done.output}"


def _reference() -> str:
    return "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))


@pytest.mark.parametrize("name", sorted({*headscope.__all__, *attention.__all__} - {"__version__"}))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"^::: headscope\.\S+\.{name}$", _reference(), re.MULTILINE), f"{name} is on no reference page"


@pytest.mark.parametrize("kind", [Scope, Look, headscope.Head, headscope.MultiHeadAttention])
def test_what_the_reference_shows_says_what_it_does(kind: type) -> None:
    members = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
    silent = [
        name
        for name, member in members.items()
        if (callable(member) or isinstance(member, property)) and not inspect.getdoc(member)
    ]
    assert not silent


def test_every_option_says_what_it_does() -> None:
    for name, command in commands_page.commands():
        assert command.help, name
        assert not [one.name for one in command.params if not getattr(one, "help", None)], name


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_a_page_and_names_it(kind: type[errors.HeadscopeError]) -> None:
    page = EXPLAINED / f"{kind.__name__}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {kind.__name__}\n")
    assert kind("what was wrong").__notes__ == [f"more: headscope explain {kind.__name__}"]
    assert str(kind("what was wrong")) == "what was wrong"
    assert f"errors/{kind.__name__}.md" in _in_nav()


def test_an_unknown_error_is_answered_with_the_known_ones() -> None:
    done = CliRunner().invoke(app, ["explain", "TypeError"])
    assert isinstance(done.exception, errors.InputError)
    assert str(done.exception).startswith("there is no error called 'TypeError'; there are BackendError, EditError")


def _in_nav() -> set[str]:
    tree = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return set(re.findall(r"[\w/.-]+\.md", str(tree)))


@pytest.mark.slow
def test_the_contents_name_the_pages_as_their_bar_does() -> None:
    from docs.hooks import PAGES as PAGES_OF_THE_BAR  # needs mkdocs

    frame = (ROOT / "web" / "src" / "words" / "en" / "frame.ts").read_text(encoding="utf-8")
    for title, page in PAGES_OF_THE_BAR.items():
        assert re.search(rf'"?{page}"?: "{title}"', frame), title


def test_every_page_is_in_the_contents() -> None:
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    explained = {f"errors/{page.name}" for page in EXPLAINED.glob("*.md")}
    assert written | explained == _in_nav()


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "HEADSCOPE_MICROSCOPE": "../index.html"}  # as `make site`
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=surroundings)
    assert done.returncode == 0, done.stderr
    for page, address in (("index.html", "../index.html#learn"), ("how-to/publish.html", "../../index.html#census")):
        assert re.search(rf'<a href="?{re.escape(address)}"?', (tmp_path / page).read_text(encoding="utf-8")), page
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(https?:[^\s\">]+)", page.read_text(encoding="utf-8"))
        fetched += re.findall(r"<link[^>]* href=\"?(https?:[^\s\">]+)", page.read_text(encoding="utf-8"))
        assert not fetched, page
