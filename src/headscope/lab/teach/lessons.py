"""The lessons: plain text with a computed example, one thing to try, and questions that are marked.

A lesson is a Markdown file. Its Python block runs when it is read; ``{{name:.2f}}`` in the text is a name from that
block, so no number in a lesson is typed by hand.
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

FOLDER = Path(__file__).with_name("lessons")
SECTIONS = ("Idea", "Computed", "Try it", "Questions")
CODE = "<the code stood here>"


@dataclass(frozen=True)
class Option:
    """One possible answer and what to say to who gives it."""

    text: str
    right: bool
    says: str


@dataclass(frozen=True)
class Question:
    """A question with options to choose from, or, where ``numeric``, one to be answered with a number."""

    text: str
    options: list[Option]
    numeric: bool

    def mark(self, answer: str) -> Marked:
        """Right or wrong, and why."""
        return self._mark_number(answer) if self.numeric else self._mark_letter(answer)

    def _mark_letter(self, answer: str) -> Marked:
        letters = "abcdefgh"[: len(self.options)]
        plain = answer.strip().strip("().").lower()
        if len(plain) != 1 or plain not in letters:
            raise InputError(
                f"could not read {answer!r} as an answer; give one letter of {', '.join(letters)}, such as b"
            )
        chosen = self.options[letters.index(plain)]
        return Marked(chosen.right, chosen.says)

    def _mark_number(self, answer: str) -> Marked:
        value = _number(answer)
        if value is None:
            raise InputError(f"could not read {answer!r} as a number; write it like this: 144")
        for option in self.options:
            meant = _number(option.text)
            if meant is not None and abs(value - meant) <= 0.005 * max(1.0, abs(meant)):
                return Marked(option.right, option.says)
        right = next(option for option in self.options if option.right)
        return Marked(False, f"It is {right.text}. {right.says}")

    def to_dict(self) -> dict[str, Any]:
        """The question as it is put: without its answers."""
        shown = [] if self.numeric else [option.text for option in self.options]
        return {"text": self.text, "numeric": self.numeric, "options": shown}


@dataclass(frozen=True)
class Marked:
    """What became of an answer."""

    right: bool
    says: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Lesson:
    """A lesson, read: every number filled in, and what its code printed.

    In the order in which it is told: the idea, the code, its output, what was computed, something to try, questions.
    """

    number: int
    name: str
    title: str
    idea: str
    code: str
    output: str
    computed: str
    try_it: str
    questions: list[Question]

    def to_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(self).items() if name != "questions"}
        return plain | {"questions": [question.to_dict() for question in self.questions]}

    def check(self, question: int, answer: str) -> Marked:
        """Mark an answer to the question of this number, from 1."""
        if not 1 <= question <= len(self.questions):
            raise InputError(f"lesson {self.number} has questions 1–{len(self.questions)}, not {question}")
        return self.questions[question - 1].mark(answer)


def contents() -> list[tuple[int, str, str]]:
    """Number, name and title of every lesson, in order; nothing is computed."""
    listed = []
    for file in sorted(FOLDER.glob("*.md")):
        number, name = file.stem.split("-", 1)
        listed.append((int(number), name, file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")))
    return listed


def lesson(which: int | str) -> Lesson:
    """The lesson of this number or name, computed."""
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
    filled = fill(text.replace(f"```python\n{code}```\n", CODE, 1), names)
    title, parts = _sections(filled, file.name)
    number, name = file.stem.split("-", 1)
    before, _, after = (part.strip() for part in parts["Computed"].partition(CODE))
    idea = f"{parts['Idea']}\n\n{before}".strip()
    questions = [_question(piece) for piece in re.split(r"^### ", parts["Questions"], flags=re.M)[1:]]
    return Lesson(int(number), name, title, idea, code, output, after, parts["Try it"], questions)


def _code(text: str, name: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    if len(blocks) != 1:
        raise InputError(f"{name} has {len(blocks)} Python blocks; a lesson has one")
    return str(blocks[0])


def _run(code: str, name: str) -> tuple[Mapping[str, Any], str]:
    """Run a lesson's own code. Lessons ship with the package; no other text ever comes here."""
    printed = io.StringIO()
    names: dict[str, Any] = {"__name__": f"lesson {name}", "print": partial(print, file=printed)}
    with torch.random.fork_rng(devices=[]):
        exec(compile(code, name, "exec"), names)
    return names, printed.getvalue().rstrip()


def fill(text: str, names: Mapping[str, Any]) -> str:
    """Put computed values in the place of ``{{name}}`` and ``{{name:format}}``."""

    def value(found: re.Match[str]) -> str:
        name, _, form = found[1].partition(":")
        if name not in names:
            raise InputError(f"the text speaks of {name!r}, which its code does not compute")
        return format(names[name], form)

    return re.sub(r"\{\{([^{}]+)\}\}", value, text)


def _sections(text: str, name: str) -> tuple[str, dict[str, str]]:
    pieces = re.split(r"^## (.+)$", text, flags=re.M)
    found = {heading.strip(): body.strip() for heading, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if tuple(found) != SECTIONS:
        raise InputError(f"{name} has the sections {', '.join(found)}; a lesson has {', '.join(SECTIONS)}")
    return pieces[0].strip().removeprefix("# "), found


def _question(text: str) -> Question:
    """``- [x] text`` is the right option, ``- [ ] text`` a wrong one; the indented line under it says why."""
    heading, _, rest = text.partition("\n")
    found = re.findall(r"^- \[( |x|=)\] (.+?)\n((?:  .+\n?)+)", rest + "\n", flags=re.M)
    options = [Option(shown.strip(), mark != " ", " ".join(says.split())) for mark, shown, says in found]
    if sum(option.right for option in options) != 1 or len(options) < 2:
        raise InputError(f"the question {heading!r} needs one right option and at least one wrong one")
    return Question(heading.strip(), options, numeric=any(mark == "=" for mark, _, _ in found))


def _number(text: str) -> float | None:
    plain = text.replace(",", "").replace("−", "-").strip().rstrip(".").lower()
    found = re.fullmatch(r"(-?(?:\d+\.?\d*|\.\d+))\s*([a-z%/ ]*)", plain)
    return float(found[1]) if found else None
