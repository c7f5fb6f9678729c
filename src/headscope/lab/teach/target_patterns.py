"""What a crafted head should look at: arrows between words, equal or with shares, or a whole painted pattern."""

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
    """One head's wish. ``arrows`` are (from, to) places; ``shares``, if given, says how much of its row each one gets.

    Without shares the arrows of a row share it equally. ``painted`` is a whole pattern instead: for each word its
    shares over all words, or ``()`` for none. A row with nothing to find rests on the first word, as heads of real
    models do.
    """

    name: str
    asks: str = ""
    arrows: tuple[Arrow, ...] = ()
    painted: tuple[tuple[int | float, ...], ...] | None = None
    shares: tuple[int | float, ...] = ()

    def rows(self, words: Sequence[str], *, causal: bool) -> tuple[Float[Tensor, "query key"], Bool[Tensor, " query"]]:
        """The wanted pattern, and which of its rows have something to find."""
        if self.painted is not None:
            matrix = self._from_painting(len(words))
        else:
            matrix = self._from_shares(words) if self.shares else self._from_arrows(len(words))
        if self.shares or self.painted is not None:
            for place, row in enumerate(matrix):
                _check_row(self.name, f"{words[place]!r} ({place})", row)
        ahead = matrix.triu(1).nonzero().tolist()
        if causal and ahead:
            start, end = ahead[0]
            raise InputError(
                f"{self.name}: {words[start]!r} ({start}) cannot look ahead to {words[end]!r} ({end}); a causal head "
                "sees only words before it: point it back, or craft with causal=False"
            )
        return _rest_on_the_first(matrix)

    def _from_arrows(self, length: int) -> Tensor:
        matrix = torch.zeros(length, length)
        for start, end in self.arrows:
            if not (0 <= start < length and 0 <= end < length):
                raise InputError(f"{self.name}: there is no arrow {start} → {end} among the words 0–{length - 1}")
            matrix[start, end] = 1.0
        return matrix

    def _from_shares(self, words: Sequence[str]) -> Tensor:
        if len(self.shares) != len(self.arrows):
            raise InputError(
                f"{self.name}: {len(self.arrows)} arrows and {len(self.shares)} shares; give one share an arrow, or "
                "none for equal shares"
            )
        matrix = self._from_arrows(len(words))
        if int(matrix.sum()) != len(self.arrows):
            start, end = next(arrow for arrow in self.arrows if self.arrows.count(arrow) > 1)
            raise InputError(
                f"{self.name}: the arrow from {words[start]!r} ({start}) to {words[end]!r} ({end}) has several shares; "
                "give it one"
            )
        for (start, end), share in zip(self.arrows, self.shares, strict=True):
            matrix[start, end] = share
        return matrix

    def _from_painting(self, length: int) -> Tensor:
        assert self.painted is not None
        rows = [row or (0,) * length for row in self.painted]
        if len(rows) != length or any(len(row) != length for row in rows):
            raise InputError(f"{self.name}: a painting of {length} words has {length} rows of {length} numbers")
        return torch.tensor(rows, dtype=torch.float32)


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
    return tuple(_arrow(piece, piece, words) for piece in _pieces(text))


def parse_shares(text: str, words: Sequence[str]) -> tuple[tuple[Arrow, ...], tuple[float, ...]]:
    """``it > horse .7, it > road .3`` as arrows and the share of each; 70% is .7.

    Arrows of a row without a number get equal parts of what the others leave.
    """
    said: dict[Arrow, float | None] = {}
    for piece in _pieces(text):
        numbered = re.fullmatch(r"(.*[^\s>→])\s+([0-9]*\.?[0-9]+)\s*(%?)", piece)
        arrow = _arrow(numbered[1] if numbered else piece, piece, words)
        if arrow in said:
            raise InputError(f"{piece!r} is said twice; say each arrow once, with one share")
        said[arrow] = float(numbered[2]) / (100 if numbered[3] else 1) if numbered else None
    return tuple(said), tuple(_filled(said, arrow, words) for arrow in said)


def _filled(said: dict[Arrow, float | None], arrow: Arrow, words: Sequence[str]) -> float:
    share = said[arrow]
    if share is not None:
        return share
    row = [each for (start, _), each in said.items() if start == arrow[0]]
    taken = sum(each for each in row if each is not None)
    if taken >= 1:
        raise InputError(
            f"the numbers of {words[arrow[0]]!r} ({arrow[0]}) add up to {taken:g} and leave nothing for "
            f"{words[arrow[1]]!r}; make them smaller, or give it a number too"
        )
    return (1 - taken) / row.count(None)


def _pieces(text: str) -> list[str]:
    return [piece for part in re.split(r"[,;\n]+", text) if (piece := part.strip())]


def _arrow(piece: str, whole: str, words: Sequence[str]) -> Arrow:
    ends = re.split(r"\s*(?:->|→|>)\s*", piece)
    if len(ends) != 2 or not all(ends):
        raise InputError(f"could not read {whole!r} as an arrow; write it like this: crossed > horse")
    return _place(ends[0], words), _place(ends[1], words)


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
