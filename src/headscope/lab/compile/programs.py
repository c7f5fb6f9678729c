"""Programs for the truth bench: small algorithms, each a few selectors whose rules are known."""

from __future__ import annotations

from dataclasses import dataclass

from headscope.errors import InputError
from headscope.lab.compile.selectors import (
    Selector,
    class_of,
    decay,
    first_token,
    from_to,
    offset,
    same_token,
    same_two,
    start_after,
)

_OFFSETS = {"itself": 0, "previous token": 1, **{f"{steps} back": steps for steps in range(2, 9)}}
_CLASSES = (
    "punctuation", "sentence ends", "commas", "function words", "content words", "capitals", "digits", "word pieces",
)  # fmt: skip


def _all_selectors() -> dict[str, Selector]:
    found = [first_token(), *(offset(rule, steps) for rule, steps in _OFFSETS.items())]
    found += [decay(near) for near in (2.0, 4.0, 8.0, 16.0, 32.0)]
    for name in _CLASSES:
        found += [class_of(name), class_of(name, last=True), class_of(name, near=3.0), class_of(name, near=8.0)]
    found += [
        same_token("copies"), same_token("last copies", last=True),
        same_token("after a copy", note=0), same_token("last after a copy", note=0, last=True),
        same_token("two after a copy", note=1), same_two(),
        start_after("start of sentence", (".", "!", "\n")), start_after("start of line", ("\n",)),
        from_to("matching bracket", (")",), (" (",)),
    ]  # fmt: skip
    return {selector.rule: selector for selector in found}


SELECTORS = _all_selectors()
"""Every rule that a head can be compiled to follow, by the rule's name."""


@dataclass(frozen=True)
class Program:
    """What a model computes, and the rule of each head that it needs."""

    name: str
    rules: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = [rule for rule in self.rules if rule not in SELECTORS]
        if unknown:
            raise InputError(f"{', '.join(unknown)}: no head is compiled from this; there are {', '.join(SELECTORS)}")

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return tuple(SELECTORS[rule] for rule in self.rules)


_ALGORITHMS = (
    Program("induction", ("after a copy",)),
    Program("induction on the last copy", ("last after a copy",)),
    Program("induction of two tokens", ("after a copy of two",)),
    Program("skip induction", ("two after a copy",)),
    Program("most frequent token", ("copies",)),
    Program("last seen", ("last copies",)),
    Program("count digits", ("digits",)),
    Program("count capitals and words", ("capitals", "content words", "function words")),
    Program("running maximum of numbers", ("digits", "last digits")),
    Program("sort numbers", ("digits", "digits, near 8", "previous token")),
    Program("matching brackets", ("matching bracket",)),
    Program("sentence starts", ("start of sentence",)),
    Program("line starts", ("start of line",)),
    Program("look up a name", ("last capitals", "after a copy")),
    Program("key and value", ("previous token", "after a copy", "copies")),
    Program("trigrams", ("itself", "previous token", "2 back")),
    Program("shift register", ("3 back", "4 back", "5 back", "6 back")),
    Program("bag of recent words", ("decay 4", "decay 16")),
    Program("moving averages", ("decay 2", "decay 8", "decay 32")),
    Program("rest", ("first token",)),
    Program("punctuation state", ("last punctuation", "last sentence ends", "last commas")),
    Program("clause", ("last commas", "start of sentence", "previous token")),
    Program("names near by", ("capitals, near 8", "capitals, near 3")),
    Program("grammar", ("last function words", "last content words")),
    Program("suffixes", ("word pieces", "last word pieces")),
    Program("letters in brackets", ("matching bracket", "last punctuation", "first token")),
    Program("copying machine", ("after a copy", "last copies", "first token", "decay 8")),
    Program("function words near", ("function words, near 3", "function words")),
    Program("content", ("content words", "content words, near 8")),
    Program("stops", ("sentence ends", "sentence ends, near 8", "punctuation")),
    Program("far offsets", ("7 back", "8 back")),
)

PROGRAMS = {program.name: program for program in _ALGORITHMS}
"""The project's own programs, by name."""
