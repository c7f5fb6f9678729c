"""Questions of a lesson: options or a number, a hint for the first wrong answer, a reason for the next."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from headscope.errors import InputError
from headscope.lab.teach.course.typed_numbers import means

LETTERS = "abcdefgh"
TOLD_AT = 3
"""The attempt at which a number that nobody foresaw is told."""


@dataclass(frozen=True)
class Option:
    """One possible answer and the reply to it."""

    text: str
    right: bool
    says: str


@dataclass(frozen=True)
class Marked:
    """A marked answer. ``kind`` says whether ``says`` is a hint or a reason."""

    right: bool
    says: str
    kind: str = "reason"
    option: int | None = field(default=None, compare=False)
    """The option that was chosen; None for a number that is none of them."""

    def to_dict(self) -> dict[str, Any]:
        return {"right": self.right, "says": self.says, "kind": self.kind}


@dataclass(frozen=True)
class QuizQuestion:
    """A multiple-choice question, or, where ``numeric``, one answered with a number."""

    text: str
    options: list[Option]
    numeric: bool
    hint: str = ""

    def mark(self, answer: str, attempt: int = TOLD_AT) -> Marked:
        """Mark an answer. A wrong first attempt gets the hint, a wrong second one the reason why it is wrong."""
        chosen = self._number(answer) if self.numeric else self._letter(answer)
        option = None if chosen is None else self.options.index(chosen)
        if chosen is not None and chosen.right:
            return Marked(True, chosen.says, option=option)
        if self.hint and attempt < (TOLD_AT if chosen is None else 2):
            return Marked(False, self.hint, "hint", option)
        if chosen is not None:
            return Marked(False, chosen.says, option=option)
        right = next(option for option in self.options if option.right)
        return Marked(False, f"It is {right.text}. {right.says}")

    def _letter(self, answer: str) -> Option:
        letters = LETTERS[: len(self.options)]
        plain = answer.strip().strip("().").lower()
        if len(plain) != 1 or plain not in letters:
            raise InputError(
                f"could not read {answer!r} as an answer; give one letter of {', '.join(letters)}, such as b"
            )
        return self.options[letters.index(plain)]

    def _number(self, answer: str) -> Option | None:
        for option in self.options:
            same = means(answer, option.text)
            if same is None:
                raise InputError(
                    f"could not read {answer!r} as a number; write it like this: 144, or .3, or 30 %, or 3/10"
                )
            if same:
                return option
        return None

    def to_dict(self) -> dict[str, Any]:
        """The question without its answers."""
        shown = [] if self.numeric else [option.text for option in self.options]
        return {"text": self.text, "numeric": self.numeric, "options": shown}


def parse_question(text: str) -> QuizQuestion:
    """Parse a question: ``> hint``, then ``- [x]`` the right option, ``- [ ]`` a wrong one, each with its reply."""
    heading, _, rest = text.partition("\n")
    hint = " ".join(" ".join(re.findall(r"^> ?(.*)$", rest, flags=re.M)).split())
    found = re.findall(r"^- \[( |x|=)\] (.+?)\n((?:  .+\n?)+)", rest + "\n", flags=re.M)
    options = [Option(shown.strip(), mark != " ", " ".join(says.split())) for mark, shown, says in found]
    if sum(option.right for option in options) != 1 or len(options) < 2:
        raise InputError(f"the question {heading!r} needs one right option and at least one wrong one")
    return QuizQuestion(heading.strip(), options, numeric=any(mark == "=" for mark, _, _ in found), hint=hint)
