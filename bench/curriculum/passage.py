"""Passages of generated text with marked answers, and the source of randomness that all kinds of text share."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bench.curriculum.harvest import Harvest
from bench.curriculum.people import NamePool, Person

from headscope.heads.roles.probes.grammar import split_words

OPEN, CLOSE = "⟦", "⟧"
T = TypeVar("T")
INNER = frozenset(split_words("The A An Nobody Somebody Someone Rain Fog It Snow Two Far Dust Music Bees There"))
SAID = (
    "people say that {}",
    "we heard that {}",
    "it is known that {}",
    "I remember that {}",
    "you must know that {}",
    "nobody doubts that {}",
    "the paper wrote that {}",
    "as it happened {}",
    "it turned out that {}",
    "they swore that {}",
    "according to the old books {}",
    "the child told us that {}",
    "in those days {}",
    "by then {}",
    "once upon a time {}",
    "{}, it seems",
    "{}, they say",
    "{}, as far as I know",
    "{} that day",
    "{}, of course",
    "{} in the end",
    "whatever you may think, {}",
    "so far {}",
    "at any rate {}",
    "for once {}",
    "from what I saw {}",
)


@dataclass(frozen=True)
class Passage:
    """A text, and the spans of characters that follow from what was said before: the answers."""

    text: str
    marks: tuple[tuple[int, int], ...]


def answer(word: str) -> str:
    """Mark a word, inside a text that is still being composed."""
    return f"{OPEN}{word}{CLOSE}"


def passage(marked: str) -> Passage:
    """Take the marks out of a composed text."""
    parts, marks, at = [], [], 0
    for number, part in enumerate(re.split(f"[{OPEN}{CLOSE}]", marked)):
        if number % 2:
            marks.append((at, at + len(part)))
        parts.append(part)
        at += len(part)
    return Passage("".join(parts), tuple(marks))


def sentence(text: str) -> str:
    """Begin with a capital letter, behind a mark or a quotation mark too; no comma stands before a comma or stop."""
    text = re.sub(r",(?=[,.;])", "", text)
    at = next((index for index, letter in enumerate(text) if letter.isalpha()), 0)
    return text[:at] + text[at].upper() + text[at + 1 :]


def prose(parts: Iterable[str]) -> str:
    """The parts as sentences, each with its full stop."""
    return " ".join(sentence(f"{part}.") for part in parts)


def inner(text: str) -> str:
    """A sentence as it stands inside another: a first word that is no name in lower case."""
    first, _, rest = text.partition(" ")
    return f"{first.lower() if first in INNER else first} {rest}"


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


@dataclass
class World:
    """What a kind of text draws from: a seeded generator, names, paragraphs of novels as hay, passages, and deeds."""

    draw: random.Random
    names: NamePool
    hay: Sequence[str] = field(default=(), repr=False)
    windows: Sequence[str] = field(default=(), repr=False)
    harvest: Harvest = field(default=Harvest(), repr=False)

    def pick(self, options: Sequence[T]) -> T:
        return self.draw.choice(options)

    def some(self, options: Sequence[T], n: int) -> list[T]:
        return self.draw.sample(options, n)

    def maybe(self, chance: float) -> bool:
        return self.draw.random() < chance

    def told(self, clause: str, chance: float = 0.45) -> str:
        """The clause as it is, or inside another that changes nothing about it."""
        if not self.maybe(chance):
            return clause
        once = self.pick(SAID).format(inner(clause))
        return self.pick(SAID[:13]).format(inner(once)) if self.maybe(0.15) else once

    def people(self, n: int, genders: str = "") -> list[Person]:
        return self.names.people(self.draw, n, genders)
