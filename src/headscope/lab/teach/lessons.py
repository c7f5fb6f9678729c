"""Load lessons from Markdown: text with live numbers and figures, a block to edit and run, and questions.

The Python block of a lesson runs when it is loaded, and ``{{name:.2f}}`` in its text is a variable of that block:
filled in for the terminal, ``{{name:.2f=0.69}}`` for the page, so that a figure that changes ``name`` changes the text
too. The form ``w`` writes a weight as ``.69``, ``head|heads`` a count with its word. A figure stands between
``::: figure kind name prop=name step=3`` and ``:::``, with its caption; a whole number is itself. The numpy block is
the reader's.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from headscope.errors import InputError
from headscope.lab.teach.course.questions import TOLD_AT, Marked, QuizQuestion, parse_question

_NAMED = re.compile(r"\{\{([^{}]+)\}\}")
_LIVE = re.compile(r"\{\{([^{}:=]+)(?::([^{}=]*))?=([^{}]*)\}\}")
_FIGURE = re.compile(r"^::: figure ([\w-]+)((?: [\w=]+)*)\n(.*?)^:::$\n?", flags=re.M | re.S)
PLACE = "[[figure {}]]"
_PLACE = re.compile(r"^\[\[figure (\d+)\]\]$", flags=re.M)


@dataclass(frozen=True)
class LessonFigure:
    """A figure of the page inside a lesson: which component, the numbers it starts from, its caption."""

    kind: str
    props: dict[str, Any]
    caption: str


def _number(value: Any, form: str) -> str:
    """A value in a format of Python's, as a weight (``w``: .69, 1, 0), or with its word (``head|heads``: 1 head)."""
    if "|" in form:
        one, several = form.split("|")
        return f"{value} {one if value == 1 else several}"
    if form != "w":
        text = format(value, form)
        return text.replace("-", "−") if isinstance(value, (int, float)) and not form.endswith("e") else text
    text = f"{abs(float(value)):.2f}"
    text = "1" if text == "1.00" else "0" if text == "0.00" else text.removeprefix("0")
    return f"−{text}" if float(value) < 0 and text != "0" else text


def live(text: str, names: Mapping[str, Any]) -> str:
    """Add its current value to every ``{{name:format}}``."""

    def value(found: re.Match[str]) -> str:
        name, _, form = found[1].partition(":")
        if name not in names:
            raise InputError(f"the text uses {name!r}, which its code does not compute")
        shown = _number(names[name], form)
        return "{{" + found[1] + "=" + shown + "}}"

    return _NAMED.sub(value, text)


def plain(text: str) -> str:
    """Text with its numbers filled in."""
    return _LIVE.sub(r"\3", text)


def with_captions(text: str, figures: list[LessonFigure]) -> str:
    """Text for a terminal: a figure is its caption."""

    def caption(found: re.Match[str]) -> str:
        return "\n".join(f"> {line}" for line in plain(figures[int(found[1])].caption).splitlines())

    return _PLACE.sub(caption, text)


def take_figures(text: str, names: Mapping[str, Any], start: int = 0) -> tuple[str, list[LessonFigure]]:
    """Replace figures by placeholders, and give each the variables it names."""
    figures: list[LessonFigure] = []

    def place(found: re.Match[str]) -> str:
        kind, caption = found[1], found[3].strip()
        wanted = {prop: name or prop for prop, _, name in (each.partition("=") for each in found[2].split())}
        missing = [name for name in wanted.values() if name not in names and not name.isdigit()]
        if missing:
            raise InputError(f"the figure {kind!r} uses {missing[0]!r}, which its code does not compute")
        props = {prop: int(name) if name.isdigit() else _json(names[name]) for prop, name in wanted.items()}
        figures.append(LessonFigure(kind, props, caption))
        return PLACE.format(start + len(figures) - 1) + "\n"

    return _FIGURE.sub(place, text), figures


def _json(value: Any) -> Any:
    """Tensors, tuples and arrays as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(each) for each in value]
    return value


FOLDER = Path(__file__).with_name("lessons")
SECTIONS = ("Idea", "Computed", "Try it", "Questions")
CODE = "<code block>"


@dataclass(frozen=True)
class CodeBlock:
    """Code for the reader to change and run, with a hint and a solution. It needs numpy and nothing else."""

    code: str
    hint: str
    solution: str


@dataclass(frozen=True)
class LessonText:
    """A lesson without its questions, in the order in which it is shown.

    Texts are Markdown: paragraphs, lists, headings, emphasis, code and links. ``{{name:.2f=0.69}}`` is a live number,
    which ``plain`` fills in, ``[[figure 0]]`` the place of a figure.
    """

    number: int
    name: str
    title: str
    idea: str
    code: str
    output: str
    computed: str
    try_it: str
    block: CodeBlock | None
    figures: list[LessonFigure]


@dataclass(frozen=True)
class Lesson(LessonText):
    """A loaded lesson."""

    questions: list[QuizQuestion]

    def to_dict(self) -> dict[str, Any]:
        """The lesson as a terminal shows it, without answers."""
        shown = {name: plain(getattr(self, name)) for name in ("idea", "computed", "try_it")}
        shown = {name: with_captions(text, self.figures) for name, text in shown.items()}
        rest = {name: getattr(self, name) for name in ("number", "name", "title", "code", "output")}
        block = None if self.block is None else {name: plain(text) for name, text in asdict(self.block).items()}
        return rest | shown | {"block": block, "questions": [asdict(question.asked) for question in self.questions]}

    def check(self, question: int, answer: str, attempt: int = TOLD_AT) -> Marked:
        """Mark an answer to the question of this number, from 1; a wrong first attempt gets a hint."""
        if not 1 <= question <= len(self.questions):
            raise InputError(f"lesson {self.number} has questions 1–{len(self.questions)}, not {question}")
        return self.questions[question - 1].mark(answer, attempt)


def contents() -> list[tuple[int, str, str]]:
    """Number, name and title of every lesson, without running them."""
    listed = []
    for file in sorted(FOLDER.glob("*.md")):
        number, name = file.stem.split("-", 1)
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        listed.append((int(number), name, title))
    return listed


def lesson(which: int | str) -> Lesson:
    """Load and run the lesson of this number or name."""
    wanted = str(which).strip().lower()
    for number, name, _ in contents():
        if wanted in (str(number), name):
            return _read(FOLDER / f"{number:02}-{name}.md")
    names = ", ".join(f"{number} {name}" for number, name, _ in contents())
    raise InputError(f"there is no lesson {which!r}; there are {names}")


@cache
def _read(file: Path) -> Lesson:
    text = file.read_text(encoding="utf-8")
    code = _code(text, file.name)
    names, output = _run(code, file.name)
    rest, figures = take_figures(text.replace(f"```python\n{code}```\n", CODE, 1), names)
    figures = [LessonFigure(each.kind, each.props, live(each.caption, names)) for each in figures]
    title, parts = _sections(live(rest, names), file.name)
    number, name = file.stem.split("-", 1)
    before, _, after = (part.strip() for part in parts["Computed"].partition(CODE))
    idea = f"{parts['Idea']}\n\n{before}".strip()
    try_it, block = _block(parts["Try it"])
    questions = [parse_question(plain(part)) for part in re.split(r"^### ", parts["Questions"], flags=re.M)[1:]]
    return Lesson(int(number), name, plain(title), idea, code, output, after, try_it, block, figures, questions)


def _code(text: str, name: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    if len(blocks) != 1:
        raise InputError(f"{name} has {len(blocks)} Python blocks; a lesson has one")
    return str(blocks[0])


def _block(text: str) -> tuple[str, CodeBlock | None]:
    """Take the reader's block out of a text: ```` ```numpy ````, then ``Hint:`` and ```` ```solution ````."""
    found = re.search(r"^```numpy\n(.*?)^```\n+Hint: (.*?)\n+```solution\n(.*?)^```$", text, flags=re.M | re.S)
    if found is None:
        return text, None
    code, hint, solution = found.groups()
    around = text[: found.start()].rstrip() + "\n\n" + text[found.end() :].lstrip()
    return around.strip(), CodeBlock(code, " ".join(hint.split()), solution)


def _run(code: str, name: str) -> tuple[Mapping[str, Any], str]:
    """Run a lesson's code. Lessons are part of the package; no other text is ever run."""
    printed = io.StringIO()
    names: dict[str, Any] = {"__name__": f"lesson {name}", "print": partial(print, file=printed)}
    with torch.random.fork_rng(devices=[]):
        exec(compile(code, name, "exec"), names)
    return names, printed.getvalue().rstrip()


def _sections(text: str, name: str) -> tuple[str, dict[str, str]]:
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    found = {heading.strip(): body.strip() for heading, body in zip(parts[1::2], parts[2::2], strict=True)}
    if tuple(found) != SECTIONS:
        raise InputError(f"{name} has the sections {', '.join(found)}; a lesson has {', '.join(SECTIONS)}")
    return parts[0].strip().removeprefix("# "), found
