"""Questions of a lesson: options or a number, a hint for the first wrong answer, a reason for the next."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headscope.errors import InputError

_PLAIN = r"[-+]?(?:\d+(?:[.,]\d*)*|[.,]\d+)"
_TYPED = re.compile(rf"({_PLAIN})(?:\s*/\s*({_PLAIN}))?\s*(%?)\s*([^\W\d_]+(?:[ /][^\W\d_]+)*)?")
TOLERANCE = 0.005
"""Answers may be off by half a percent, near zero by half a hundredth."""


def readings(text: str) -> list[float]:
    """Every number that a typed text may mean; none if it is not a number.

    A comma is a decimal sign in 0,3 and separates thousands in 1,200; where it could be either, both are meant.
    """
    found = _TYPED.fullmatch(text.replace("−", "-").replace("\u2009", " ").replace("\xa0", " ").strip().rstrip("."))
    if found is None:
        return []
    whole, below, percent, _ = found.groups()
    values = _decimals(whole)
    if below is not None:
        values = [value / divisor for value in values for divisor in _decimals(below) if divisor]
    return [value / 100 for value in values] if percent else values


def means(text: str, wanted: str) -> bool | None:
    """Whether a typed text means the same number as another; None if it is not a number."""
    values = readings(text)
    if not values:
        return None
    if "%" in wanted and "%" not in text:
        values = [*values, *(value / 100 for value in values)]
    elif "%" in text and "%" not in wanted:
        values = [*values, *(value * 100 for value in values)]
    return any(
        abs(value - meant) <= TOLERANCE * max(1.0, abs(meant)) for value in values for meant in readings(wanted)[:1]
    )


def _decimals(text: str) -> list[float]:
    """The readings of digits with points and commas."""
    grouped = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?", text) is not None
    decimal = text.count(",") + text.count(".") == 1 or text.count(",") + text.count(".") == 0
    found = [float(text.replace(",", ""))] if grouped else []
    if decimal:
        found.append(float(text.replace(",", ".")))
    return found


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


@dataclass(frozen=True)
class AskedQuestion:
    """A question without its answers. A numeric one has no options."""

    text: str
    numeric: bool
    options: list[str]


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

    @property
    def asked(self) -> AskedQuestion:
        return AskedQuestion(self.text, self.numeric, [] if self.numeric else [option.text for option in self.options])


def parse_question(text: str) -> QuizQuestion:
    """Parse a question: ``> hint``, then ``- [x]`` the right option, ``- [ ]`` a wrong one, each with its reply."""
    heading, _, rest = text.partition("\n")
    hint = " ".join(" ".join(re.findall(r"^> ?(.*)$", rest, flags=re.M)).split())
    found = re.findall(r"^- \[( |x|=)\] (.+?)\n((?:  .+\n?)+)", rest + "\n", flags=re.M)
    options = [Option(shown.strip(), mark != " ", " ".join(says.split())) for mark, shown, says in found]
    if sum(option.right for option in options) != 1 or len(options) < 2:
        raise InputError(f"the question {heading!r} needs one right option and at least one wrong one")
    return QuizQuestion(heading.strip(), options, numeric=any(mark == "=" for mark, _, _ in found), hint=hint)
