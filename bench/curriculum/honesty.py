"""Refuse generated text that resembles what a model is judged on: the battery's probes and the held-out questions.

A text is refused if it has one of their names, or if six of its tokens in a row fit six in a row of one of their
templates. Slots of a template fit any word; six tokens of which fewer than three are fixed, or whose fixed words are
all of grammar ("the", "of", a comma), are not compared, since every English text would have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from bench.curriculum import held_out

from headscope.heads.roles.probes import grammar, text_probes
from headscope.heads.roles.probes.grammar import split_words

WINDOW, LEAST_FIXED = 6, 3
SLOT = None
GRAMMAR = frozenset(
    split_words(
        """a an the of to in on at by for with from and or but so as than that which who whom this these those it its he
        she they we you i him her them his their is are was were be been has have had do does did not no then there
        here . , ; : ! ? " ' “ ” ( )"""
    )
)
TOKEN = re.compile(r"\w+|[^\w\s]")
_SLOTS = re.compile(r"<[qtd]:\w+>|\{\w+\}")
_FIXED = re.compile(r"<[qtd]=(\w+)>")

Pattern = tuple[str | None, ...]


@dataclass(frozen=True)
class Refusal:
    """Why a text is refused: the name or the template's words, and the words of the text."""

    reason: str
    found: str


def templates() -> list[str]:
    """Every template by which heads and models are judged."""
    arcs = [grammar.COREFERENCE, grammar.VERB_TO_SUBJECT, grammar.NOUN_TO_MODIFIER, grammar.NEGATION]
    boxes = ["The {colour} box holds the {thing}.", "So we know that the {colour} box holds the"]
    giving = [*text_probes.GIVING, *held_out.GIVING]
    pronouns = [template for template, _ in held_out.PRONOUNS]
    arcs_with_lead = [grammar.LEAD + template for group in arcs for template in group]
    return [*arcs_with_lead, *giving, *boxes, *pronouns, "The order was {one}, {two}, {three},"]


def tokens_of(template: str) -> Pattern:
    """Words and punctuation in lower case; a slot is None."""
    plain = _SLOTS.sub(" \0 ", _FIXED.sub(r"\1", template))
    return tuple(SLOT if each == "\0" else each.lower() for each in re.findall(r"\0|\w+|[^\w\s\0]", plain))


@cache
def patterns() -> dict[str, list[tuple[int, Pattern]]]:
    """All windows that are compared, by one content word of each and its place in the window."""
    found: dict[str, list[tuple[int, Pattern]]] = {}
    for window in sorted({window for template in templates() for window in _windows(tokens_of(template))}, key=str):
        content = [word for word in window if word is not SLOT and word not in GRAMMAR]
        if not content or sum(word is not SLOT for word in window) < LEAST_FIXED:
            continue
        anchor = max(content, key=len)
        found.setdefault(anchor, []).append((window.index(anchor), window))
    return found


def refusal(text: str) -> Refusal | None:
    """Why this text may not be trained on; None if it may."""
    words = TOKEN.findall(text)
    named = held_out.NAMES.intersection(words)
    if named:
        return Refusal("a name by which models are judged", min(named))
    lower = [word.lower() for word in words]
    known = patterns()
    for at, word in enumerate(lower):
        for offset, window in known.get(word, ()):
            here = lower[max(0, at - offset) : at - offset + len(window)]
            if at >= offset and _fits(here, window):
                shown = " ".join("…" if each is SLOT else each for each in window)
                return Refusal(f"the template “{shown}”", " ".join(here))
    return None


def refused(texts: Iterable[str]) -> Iterator[Refusal]:
    return (found for text in texts if (found := refusal(text)) is not None)


def _windows(tokens: Pattern) -> Iterator[Pattern]:
    size = min(WINDOW, len(tokens))
    return (tokens[at : at + size] for at in range(len(tokens) - size + 1))


def _fits(words: list[str], window: Pattern) -> bool:
    return len(words) == len(window) and all(
        (wanted is SLOT and word.isalnum()) or word == wanted for word, wanted in zip(words, window, strict=True)
    )
