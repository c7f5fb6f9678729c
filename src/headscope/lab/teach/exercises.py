"""Check two exercises on the worked example: invent two heads for "it", and draw the flow through two heads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headscope.errors import InputError
from headscope.lab.teach.course.typed_numbers import one_number
from headscope.lab.teach.worked_example import Number, Vector, number, vector, weigh

ROUNDING = 0.005
"""Answers may be rounded to two digits."""


@dataclass(frozen=True)
class Remark:
    """One checked part of an answer: whether it is right, and an explanation."""

    about: str
    right: bool
    says: str


@dataclass(frozen=True)
class Checked:
    """A checked answer: right when every remark is."""

    remarks: list[Remark]

    @property
    def right(self) -> bool:
        return all(remark.right for remark in self.remarks)


@dataclass(frozen=True)
class InventTwoHeads:
    """Exercise: invent attention weights of two heads for "it", and compute z of each."""

    sentence: str = "The horse crossed the road because it was tired"
    reader: str = "it"
    referent: str = "horse"
    attribute: str = "tired"
    values: dict[str, Vector] = field(
        default_factory=lambda: {
            "horse": [0.8, 0.1, 0, 0.2],
            "road": [0.1, 0.7, 0.1, 0],
            "because": [0.2, 0.2, 0.6, 0.1],
            "was": [0.1, 0.1, 0.2, 0.8],
            "tired": [0.3, 0.6, 0.1, 0.2],
        }
    )
    example: str = "horse .6, road .1, because .1, was .1, tired .1"

    def check(
        self,
        heads: Sequence[str | Mapping[str, Number]],
        sums: Sequence[str | Sequence[Number]] = (),
        *,
        concatenated: str = "",
        attempt: int = 2,
    ) -> Checked:
        """Check that rows sum to 1, that the heads find different words, and each given sum and the concatenation.

        A sum left empty is not checked. A wrong sum gets a hint at the first attempt, its arithmetic at the next.
        """
        if len(heads) != 2:
            raise InputError(f"the exercise asks for two heads, got {len(heads)}; write each as {self.example!r}")
        cards = [self.parse(head) for head in heads]
        remarks = [self._shares(index, card) for index, card in enumerate(cards, start=1)]
        remarks.append(self._winners(cards))
        for index, (card, answer) in enumerate(zip(cards, sums, strict=False), start=1):
            if not isinstance(answer, str):
                remarks.append(self._sum(index, card, list(answer), attempt))
            elif answer.strip():
                remarks.append(self._sum(index, card, _parse_numbers(answer), attempt))
        if concatenated.strip():
            remarks.append(self._concatenation(cards, _parse_numbers(concatenated)))
        return Checked(remarks)

    def own_values(self, values: Mapping[str, Sequence[Number]]) -> dict[str, Vector]:
        """Values of the student's own: one for each word, all of the same length."""
        if values.keys() != self.values.keys():
            raise InputError(f"give one value for each of {', '.join(self.values)}; got {', '.join(values) or 'none'}")
        if len({len(row) for row in values.values()}) != 1 or not all(values.values()):
            raise InputError("the values of all words need the same number of numbers, at least one")
        return {word: list(values[word]) for word in self.values}

    def parse(self, head: str | Mapping[str, Number]) -> dict[str, Number]:
        """Read attention weights from text or a mapping; missing words get 0."""
        given = dict(head) if isinstance(head, Mapping) else _parse_scorecard(head, self.example)
        for word in given:
            if word not in self.values:
                raise InputError(f"{word!r} is not one of the words to read: {', '.join(self.values)}")
            if not math.isfinite(given[word]):
                raise InputError(f"{word!r} has {given[word]}; shares are numbers from 0 to 1, as in {self.example!r}")
        return {word: float(given.get(word, 0.0)) for word in self.values}

    def _shares(self, index: int, card: Mapping[str, Number]) -> Remark:
        about, total = f"head {index}: shares", math.fsum(card.values())
        below = [word for word, share in card.items() if share < 0]
        if below:
            return Remark(about, False, f"{below[0]} has {number(card[below[0]])}; softmax never gives less than 0.")
        if abs(total - 1) > ROUNDING:
            much = "too much" if total > 1 else "too little"
            return Remark(about, False, f"They add up to {number(total)}, {much}: a head shares out exactly 1.")
        return Remark(about, True, "They add up to 1.")

    def _winners(self, cards: Sequence[Mapping[str, Number]]) -> Remark:
        winners = [max(card, key=lambda word: card[word]) for card in cards]
        about = "two different questions"
        if set(winners) == {self.referent, self.attribute}:
            return Remark(about, True, f"One head reads {self.referent} most, the other {self.attribute}.")
        if winners[0] == winners[1]:
            return Remark(
                about,
                False,
                f"Both heads read {winners[0]} most: the second tells you nothing new. Let one look for whom "
                f"“{self.reader}” means, and the other for what is said of it.",
            )
        return Remark(
            about,
            False,
            f"They read {winners[0]} and {winners[1]} most; one should find whom “{self.reader}” means "
            f"({self.referent}), the other what is said of it ({self.attribute}).",
        )

    def _concatenation(self, cards: Sequence[Mapping[str, Number]], answer: Sequence[Number]) -> Remark:
        first, second = (weigh(card, self.values) for card in cards)
        about = "concatenation"
        if _close(answer, [*first, *second]):
            return Remark(about, True, f"End to end: {vector([*first, *second])}.")
        if _close(answer, [*second, *first]):
            return Remark(about, False, "The two are there, but in the other order: head 1 comes first.")
        if len(answer) == len(first):
            why = "You have added or averaged them; concatenation adds nothing: it lays them end to end."
            return Remark(about, False, f"It has {2 * len(first)} numbers, not {len(answer)}. {why}")
        if len(answer) != 2 * len(first):
            return Remark(
                about, False, f"It has {2 * len(first)} numbers, {len(first)} of each head; you gave {len(answer)}."
            )
        half = "first" if not _close(answer[: len(first)], first) else "second"
        return Remark(
            about, False, f"The {half} half is not the output of head {1 + (half == 'second')}. Check that sum."
        )

    def _sum(self, index: int, card: Mapping[str, Number], answer: Sequence[Number], attempt: int) -> Remark:
        truth, about = weigh(card, self.values), f"head {index}: sum"
        if len(answer) != len(truth):
            return Remark(
                about, False, f"A value has {len(truth)} numbers, so the sum has too; you gave {len(answer)}."
            )
        wrong = [column for column, (a, b) in enumerate(zip(answer, truth, strict=True)) if not abs(a - b) <= ROUNDING]
        if not wrong:
            return Remark(about, True, f"o{index} = {vector(truth)}.")
        column = wrong[0]
        if attempt <= 1:
            word = max(card, key=lambda each: card[each])
            first = f"{word} alone gives {number(card[word])}·{number(self.values[word][column])}"
            return Remark(
                about,
                False,
                f"Number {column + 1} is not {number(answer[column])}. Take number {column + 1} of every value times "
                f"the word's share, and add: {first}.",
            )
        terms = " + ".join(
            f"{number(card[word])}·{number(row[column])}" for word, row in self.values.items() if card[word]
        )
        return Remark(
            about,
            False,
            f"Number {column + 1} is {terms or '0'} = {number(truth[column])}, not {number(answer[column])}.",
        )


def _parse_scorecard(text: str, example: str) -> dict[str, Number]:
    """Parse ``horse .6, road .1`` as a mapping."""
    pairs = re.findall(r"([^\W\d_]+)\s*[:=]?\s*([-−+]?(?:\d+\.?\d*|\.\d+)%?)", text)
    rest = re.sub(r"([^\W\d_]+)\s*[:=]?\s*([-−+]?(?:\d+\.?\d*|\.\d+)%?)", "", text).strip(" ,;\n\t")
    if not pairs or rest:
        raise InputError(f"could not read {text!r} as words with shares; write it like this: {example}")
    words = [word.lower() for word, _ in pairs]
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        raise InputError(f"{twice[0]!r} occurs more than once in {text!r}; give every word one share")
    return {word: _number(share) for word, (_, share) in zip(words, pairs, strict=True)}


def _parse_numbers(text: str) -> Vector:
    """Parse ``.62 .19``, ``(0.62, 0.19)``, ``0,62 0,19`` or ``62 % 19/100`` as numbers."""
    plain = re.sub(r"\s*/\s*", "/", re.sub(r"\s+%", "%", text.strip(" ()[]\n\t")))
    spaced = re.search(r"\s|;", plain) is not None
    items = re.split(r"[\s;]+", plain) if spaced else plain.split(",")
    found = [one_number(item.strip(",")) for item in items if item.strip(",")]
    if not found or any(each is None for each in found):
        raise InputError(f"could not read {text!r} as numbers; write them like this: .62 .19 .085 .21")
    return [each for each in found if each is not None]


def _number(text: str) -> float:
    plain = text.replace("−", "-")
    return float(plain.removesuffix("%")) / 100 if plain.endswith("%") else float(plain)


def _close(answer: Sequence[Number], truth: Sequence[Number]) -> bool:
    return len(answer) == len(truth) and all(abs(a - b) <= ROUNDING for a, b in zip(answer, truth, strict=True))


BOXES = ("input", "head 1", "head 2", "concatenate", "W_O", "output")
ARROWS = (
    ("input", "head 1"),
    ("input", "head 2"),
    ("head 1", "concatenate"),
    ("head 2", "concatenate"),
    ("concatenate", "W_O"),
    ("W_O", "output"),
)
FORK_EXAMPLE = "input > head 1, head 1 > concatenate"

_RIGHT = {
    ("input", "head 1"): "Head 1 reads the input.",
    ("input", "head 2"): "Head 2 reads the same input, at the same time.",
    ("head 1", "concatenate"): "Its answer comes first.",
    ("head 2", "concatenate"): "Its answer comes after.",
    ("concatenate", "W_O"): "All answers together, then mixed.",
    ("W_O", "output"): "What W_O writes leaves the layer.",
}

# Common mistakes, and why they are wrong.
_CHAIN = "Heads do not feed each other: both read the input, side by side. A chain would be two layers."
_WRONG = {
    ("head 1", "head 2"): _CHAIN,
    ("head 2", "head 1"): _CHAIN,
    ("concatenate", "output"): "The answers lie end to end but are not mixed yet: W_O comes between.",
    ("input", "concatenate"): "Only the heads' answers are concatenated. (The input meets the output later, in the "
    "residual sum.)",
    ("input", "W_O"): "W_O reads what the heads say, not the input itself.",
    ("input", "output"): "That is the residual connection: true of the block, but outside the attention layer.",
    ("W_O", "concatenate"): "The other way round: concatenate first, then mix.",
} | {
    (head, end): why
    for head in ("head 1", "head 2")
    for end, why in (
        ("W_O", "W_O is one matrix for all heads together: first lay their answers end to end."),
        ("output", "Nothing leaves the layer without W_O."),
    )
}


def check_fork(arrows: str | Sequence[Sequence[str]]) -> Checked:
    """Check a drawing of the flow: input → two heads → concatenate → W_O → output, and no other arrow."""
    drawn = _parse_arrows(arrows) if isinstance(arrows, str) else [_arrow(tuple(pair)) for pair in arrows]
    remarks = []
    for pair in dict.fromkeys(drawn):
        if pair in ARROWS:
            remarks.append(Remark(f"{pair[0]} → {pair[1]}", True, _RIGHT[pair]))
        elif pair[::-1] in ARROWS and pair not in _WRONG:
            remarks.append(Remark(f"{pair[0]} → {pair[1]}", False, f"The other way round: {pair[1]} → {pair[0]}."))
        else:
            why = _WRONG.get(pair, "No number flows along this arrow.")
            remarks.append(Remark(f"{pair[0]} → {pair[1]}", False, why))
    missing = [pair for pair in ARROWS if pair not in drawn]
    remarks += [Remark(f"{pair[0]} → {pair[1]}", False, "This arrow is missing.") for pair in missing]
    return Checked(remarks)


def _parse_arrows(text: str) -> list[tuple[str, str]]:
    arrows: list[tuple[str, str]] = []
    for chain in re.split(r"[,;\n]+", text):
        boxes = [box for box in re.split(r"\s*(?:->|→|>)\s*", chain.strip()) if box]
        if not boxes:
            continue
        if len(boxes) < 2:
            raise InputError(f"{chain.strip()!r} has no arrow; write them like this: {FORK_EXAMPLE}")
        arrows += [_arrow(pair) for pair in pairwise(boxes)]
    if not arrows:
        raise InputError(f"no arrows in {text!r}; write them like this: {FORK_EXAMPLE}")
    return arrows


def _arrow(pair: tuple[str, ...]) -> tuple[str, str]:
    names = {re.sub(r"[\s_]+", "", box).lower(): box for box in BOXES}
    if len(pair) != 2:
        raise InputError(f"an arrow joins two boxes, got {pair}; write them like this: {FORK_EXAMPLE}")
    found = []
    for name in pair:
        plain = re.sub(r"[\s_]+", "", str(name)).lower()
        if plain not in names:
            raise InputError(f"there is no box {name!r}; the boxes are {', '.join(BOXES)}")
        found.append(names[plain])
    return found[0], found[1]
