"""Load lessons from Markdown: text with a computed example, one thing to try, and questions with marked answers.

The Python block of a lesson runs when it is loaded; ``{{name:.2f}}`` in the text is replaced by a variable of that
block, so every number in a lesson is computed.
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
CODE = "<code block>"


@dataclass(frozen=True)
class Option:
    """One possible answer and the reply to it."""

    text: str
    right: bool
    says: str


@dataclass(frozen=True)
class Question:
    """A multiple-choice question, or, where ``numeric``, one answered with a number."""

    text: str
    options: list[Option]
    numeric: bool

    def mark(self, answer: str) -> Marked:
        """Mark an answer as right or wrong, with the reason."""
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
        """The question without its answers."""
        shown = [] if self.numeric else [option.text for option in self.options]
        return {"text": self.text, "numeric": self.numeric, "options": shown}


@dataclass(frozen=True)
class Marked:
    """A marked answer."""

    right: bool
    says: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Lesson:
    """A loaded lesson with computed numbers and the output of its code, in the order in which it is shown."""

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
    """Number, name and title of every lesson, without running them."""
    listed = []
    for file in sorted(FOLDER.glob("*.md")):
        number, name = file.stem.split("-", 1)
        listed.append((int(number), name, file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")))
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
    filled = fill(text.replace(f"```python\n{code}```\n", CODE, 1), names)
    title, parts = _sections(filled, file.name)
    number, name = file.stem.split("-", 1)
    before, _, after = (part.strip() for part in parts["Computed"].partition(CODE))
    idea = f"{parts['Idea']}\n\n{before}".strip()
    questions = [_question(part) for part in re.split(r"^### ", parts["Questions"], flags=re.M)[1:]]
    return Lesson(int(number), name, title, idea, code, output, after, parts["Try it"], questions)


def _code(text: str, name: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    if len(blocks) != 1:
        raise InputError(f"{name} has {len(blocks)} Python blocks; a lesson has one")
    return str(blocks[0])


def _run(code: str, name: str) -> tuple[Mapping[str, Any], str]:
    """Run a lesson's code. Lessons are part of the package; no other text is ever run."""
    printed = io.StringIO()
    names: dict[str, Any] = {"__name__": f"lesson {name}", "print": partial(print, file=printed)}
    with torch.random.fork_rng(devices=[]):
        exec(compile(code, name, "exec"), names)
    return names, printed.getvalue().rstrip()


def fill(text: str, names: Mapping[str, Any]) -> str:
    """Replace ``{{name}}`` and ``{{name:format}}`` by computed values."""

    def value(found: re.Match[str]) -> str:
        name, _, form = found[1].partition(":")
        if name not in names:
            raise InputError(f"the text uses {name!r}, which its code does not compute")
        return format(names[name], form)

    return re.sub(r"\{\{([^{}]+)\}\}", value, text)


def _sections(text: str, name: str) -> tuple[str, dict[str, str]]:
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    found = {heading.strip(): body.strip() for heading, body in zip(parts[1::2], parts[2::2], strict=True)}
    if tuple(found) != SECTIONS:
        raise InputError(f"{name} has the sections {', '.join(found)}; a lesson has {', '.join(SECTIONS)}")
    return parts[0].strip().removeprefix("# "), found


def _question(text: str) -> Question:
    """Parse a question: ``- [x]`` marks the right option, ``- [ ]`` a wrong one; the indented line is the reply."""
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
