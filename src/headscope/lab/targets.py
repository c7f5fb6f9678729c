"""What a crafted head should look at: arrows between words, or a painted matrix, made into rows that sum to one."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.errors import InputError

SENTENCE = "The tired horse crossed the narrow road because it was late"
FEWEST_WORDS, MOST_WORDS = 2, 64

Arrow = tuple[int, int]


@dataclass(frozen=True)
class Target:
    """One head's wish. ``arrows`` are (from, to) places in the sentence; ``painted`` is a whole pattern instead.

    A row with nothing to find rests on the first word, as heads of real models do.
    """

    name: str
    asks: str = ""
    arrows: tuple[Arrow, ...] = ()
    painted: tuple[tuple[int | float, ...], ...] | None = None

    def rows(self, words: Sequence[str], *, causal: bool) -> tuple[Float[Tensor, "query key"], Bool[Tensor, " query"]]:
        """The wanted pattern, and which of its rows have something to find."""
        if self.painted is not None:
            return self._from_painting(words, causal)
        length = len(words)
        matrix = torch.zeros(length, length)
        for start, end in self.arrows:
            if not (0 <= start < length and 0 <= end < length):
                raise InputError(f"{self.name}: there is no arrow {start} → {end} among the words 0–{length - 1}")
            if causal and end > start:
                raise InputError(
                    f"{self.name}: {words[start]!r} ({start}) cannot look ahead to {words[end]!r} ({end}); a causal "
                    "head sees only words before it: turn the arrow round, or craft with causal=False"
                )
            matrix[start, end] = 1.0
        return _rest_on_the_first(matrix)

    def _from_painting(self, words: Sequence[str], causal: bool) -> tuple[Tensor, Tensor]:
        assert self.painted is not None
        length = len(words)
        if len(self.painted) != length or any(len(row) != length for row in self.painted):
            raise InputError(f"{self.name}: a painting of {length} words has {length} rows of {length} numbers")
        matrix = torch.tensor(self.painted, dtype=torch.float32)
        for place, row in enumerate(matrix):
            _check_row(self.name, f"{words[place]!r} ({place})", row)
            if causal and float(row[place + 1 :].sum()) > 0:
                raise InputError(
                    f"{self.name}: the row of {words[place]!r} ({place}) is painted after its own word; a causal "
                    "head sees only words before it: move the paint, or craft with causal=False"
                )
        return _rest_on_the_first(matrix)


def _check_row(name: str, word: str, row: Tensor) -> None:
    total = float(row.sum())
    if not bool(row.isfinite().all()) or bool((row < 0).any()):
        raise InputError(
            f"{name}: the row of {word} holds {row.tolist()}; shares are numbers from 0 to 1, as in 0 .5 .5 0"
        )
    if total > 0 and abs(total - 1) > 0.01:
        way = "two full weights need two heads" if total > 1.01 else "paint more, or leave the whole row empty"
        raise InputError(
            f"{name}: the row of {word} adds up to {total:g}; one softmax row shares out exactly 1, "
            f"as in 0 .5 .5 0: {way}"
        )


def _rest_on_the_first(matrix: Tensor) -> tuple[Tensor, Tensor]:
    totals = matrix.sum(-1, keepdim=True)
    wanted = totals[:, 0] > 0
    matrix = torch.where(totals > 0, matrix / totals.clamp(min=1e-9), torch.zeros_like(matrix))
    matrix[~wanted, 0] = 1.0
    return matrix, wanted


def split_words(sentence: str) -> list[str]:
    """Words and punctuation, each a token."""
    words = re.findall(r"[\w'’-]+|[^\w\s]", sentence)
    if len(words) < FEWEST_WORDS:
        found = "no word" if not words else f"one word, {words[0]!r}"
        raise InputError(f"the sentence has {found}; attention needs at least two, as in {SENTENCE!r}")
    if len(words) > MOST_WORDS:
        raise InputError(
            f"the sentence has {len(words)} words; at most {MOST_WORDS} can be painted and fitted here. For longer "
            "texts look at a trained model"
        )
    return words


def parse_arrows(text: str, words: Sequence[str]) -> tuple[Arrow, ...]:
    """``crossed > horse, was > it`` as places; a word that stands twice is written with its place, ``the@4``."""
    arrows = []
    for piece in filter(None, (part.strip() for part in re.split(r"[,;\n]+", text))):
        ends = re.split(r"\s*(?:->|→|>)\s*", piece)
        if len(ends) != 2 or not all(ends):
            raise InputError(f"could not read {piece!r} as an arrow; write it like this: crossed > horse")
        arrows.append((_place(ends[0], words), _place(ends[1], words)))
    return tuple(arrows)


def _place(word: str, words: Sequence[str]) -> int:
    name, at, number = word.rpartition("@")
    if at and number.isdecimal() and int(number) < len(words) and words[int(number)] == name:
        return int(number)
    places = [place for place, each in enumerate(words) if each == word]
    if len(places) == 1:
        return places[0]
    if not places:
        raise InputError(f"there is no word {word!r} in this sentence: {' '.join(words)}")
    raise InputError(
        f"{word!r} stands {len(places)} times; say which: {', '.join(f'{word}@{place}' for place in places)}"
    )


def previous_token(words: Sequence[str]) -> Target:
    arrows = tuple((place, place - 1) for place in range(1, len(words)))
    return Target("Previous token", "What came just before?", arrows)


def default_targets() -> list[Target]:
    """Four jobs for the default sentence."""
    words = split_words(SENTENCE)
    return [
        Target("Verb to subject", "Who did it?", parse_arrows("crossed > horse, was > it", words)),
        Target("Noun to modifier", "What kind of thing?", parse_arrows("horse > tired, road > narrow", words)),
        Target("Pronoun to antecedent", "Who is meant?", parse_arrows("it > horse", words)),
        previous_token(words),
    ]


_MODIFIERS = ("tired", "small", "old", "quiet", "hungry", "clever", "brown", "patient")
_SUBJECTS = ("horse", "teacher", "cat", "sailor", "queen", "robot", "gardener", "child")
_VERBS = ("crossed", "painted", "left", "followed", "found", "opened", "watched")
_PLACES = ("narrow", "wet", "empty", "long", "strange", "bright")
_OBJECTS = ("road", "door", "garden", "box", "river", "letter")
_LINKS = ("because", "although", "when", "while")
_ENDINGS = ("late", "cold", "happy", "afraid", "bored")


def made_sentence(seed: int) -> tuple[str, list[Target]]:
    """Another sentence and its four targets, from a small grammar; equal seeds give equal sentences."""
    draw = random.Random(seed)
    articles = [draw.choice(("the", "a", "every")) for _ in range(2)]
    subject_modifiers = draw.sample(_MODIFIERS, draw.choice((1, 1, 2)))
    has_adverb = draw.random() < 0.5
    words = [articles[0].capitalize(), *subject_modifiers, draw.choice(_SUBJECTS)]
    subject = len(words) - 1
    words += ["quickly"] * has_adverb + [draw.choice(_VERBS)]
    verb = len(words) - 1
    words += [articles[1], draw.choice(_PLACES), draw.choice(_OBJECTS)]
    thing = len(words) - 1
    words += [draw.choice(_LINKS), "it", "was", draw.choice(_ENDINGS)]
    pronoun = len(words) - 3
    targets = [
        Target("Verb to subject", "Who did it?", ((verb, subject), (pronoun + 1, pronoun))),
        Target("Noun to modifier", "What kind of thing?", ((subject, subject - 1), (thing, thing - 1))),
        Target("Pronoun to antecedent", "Who is meant?", ((pronoun, subject),)),
        previous_token(words),
    ]
    return " ".join(words), targets
