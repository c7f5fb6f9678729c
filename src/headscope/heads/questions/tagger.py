"""Parts of speech and dependency arcs as questions, from any tagger: a function from a text to its tagged words."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from headscope.errors import InputError
from headscope.heads.questions.label_rules import LabelRule
from headscope.models.protocol import Token

KEPT = 64
"""Texts whose tags are kept: every question of a tagger asks for the same ones."""
SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")
"""Special tokens, as they are written: a tagger gets spaces in their place, or one would be part of the first word."""
PARTS_OF_SPEECH = {
    "nouns": "NOUN", "names": "PROPN", "verbs": "VERB", "auxiliaries": "AUX", "adjectives": "ADJ", "adverbs": "ADV",
    "pronouns": "PRON", "prepositions": "ADP", "determiners": "DET", "conjunctions": "CCONJ",
}  # fmt: skip
"""Universal parts of speech that are asked for, by name."""


@dataclass(frozen=True)
class TaggedWord:
    """A word of a text: its characters, its part of speech, and the index of the word that it depends on."""

    start: int
    end: int
    tag: str
    head: int | None = None
    """None for the root of a sentence, and where a tagger finds no arcs."""


Tagger = Callable[[str], Sequence[TaggedWord]]


def tagged_questions(tagger: Tagger) -> tuple[LabelRule, ...]:
    """Questions for a scan: each part of speech, a word's head, and its dependents."""
    read = _Reader(tagger)
    parts = [
        LabelRule(name, read.everywhere, partial(read.with_tag, tag), exclude_self=True)
        for name, tag in PARTS_OF_SPEECH.items()
    ]
    return (
        *parts,
        LabelRule("syntactic head", read.heads, read.words, exclude_self=True),
        LabelRule("syntactic dependents", read.words, read.heads, exclude_self=True),
    )


def spacy_tagger(model: str = "en_core_web_sm") -> Tagger:
    """A tagger of spaCy, which has to be installed with this model."""
    try:
        pipeline = importlib.import_module("spacy").load(model)
    except (ImportError, OSError) as error:
        raise InputError(
            f"no spaCy model {model!r} is installed ({error}); pip install spacy and download the model, or give any "
            "function from a text to its tagged words"
        ) from error

    def tag(text: str) -> list[TaggedWord]:
        return [
            TaggedWord(word.idx, word.idx + len(word.text), word.pos_, None if word.head.i == word.i else word.head.i)
            for word in pipeline(text)  # a root is its own head, and so is every word where nothing parses
        ]

    return tag


class _Reader:
    """The tagged words of texts, and the word that each token begins in."""

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._read = lru_cache(maxsize=KEPT)(self._tag)

    def everywhere(self, tokens: Sequence[Token]) -> list[int]:
        return [1] * len(tokens)

    def with_tag(self, tag: str, tokens: Sequence[Token]) -> list[int]:
        tagged, words = self._of(tokens)
        return [1 if word >= 0 and tagged[word].tag == tag else -1 for word in words]

    def words(self, tokens: Sequence[Token]) -> list[int]:
        return list(self._of(tokens)[1])

    def heads(self, tokens: Sequence[Token]) -> list[int]:
        tagged, words = self._of(tokens)
        found = [tagged[word].head if word >= 0 else None for word in words]
        return [-1 if head is None else head for head in found]

    def _of(self, tokens: Sequence[Token]) -> tuple[Sequence[TaggedWord], tuple[int, ...]]:
        return self._read(tuple(token.text for token in tokens))

    def _tag(self, texts: tuple[str, ...]) -> tuple[Sequence[TaggedWord], tuple[int, ...]]:
        text = "".join(" " * len(token) if SPECIAL.fullmatch(token) else token for token in texts)
        tagged = self._tagger(text)
        at = [-1] * (len(text) + 1)
        for index, word in enumerate(tagged):
            if not 0 <= word.start < word.end <= len(text) or not (word.head is None or 0 <= word.head < len(tagged)):
                raise InputError(
                    f"the tagger's word {index} reaches from {word.start} to {word.end} with head {word.head}; this "
                    f"text has {len(text)} characters and {len(tagged)} words"
                )
            at[word.start : word.end] = [index] * (word.end - word.start)
        words, place = [], 0
        for token in texts:
            words.append(at[place + len(token) - len(token.lstrip())] if token.strip() else -1)
            place += len(token)
        return tagged, tuple(words)
