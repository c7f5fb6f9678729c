"""Sentences on which a trained model is judged. Their names and templates are refused in training text.

Each question ends where one word is due; ``source`` is the span of characters that holds the answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.heads.roles.probes.grammar import WORDS, filler
from headscope.heads.roles.probes.token_probes import SEQUENCES

WOMEN = ("Eleanor", "Marion", "Caroline", "Dorothy", "Barbara", "Christine", "Rebecca", "Sophia")
MEN = ("Andrew", "Daniel", "Edmund", "Matthew", "Gerald", "Maurice", "Benjamin", "Alexander")
NAMES = frozenset(WOMEN + MEN + WORDS["woman"] + WORDS["man"])

GIVING = (
    "Last week {a} and {b} visited the {place} together. On the stairs {s} pressed a {thing} on",
    "{a} and {b} shared a room above the {place}. One night {s} wrote a note to",
    "The {place} belonged to {a} and {b}. When the {thing} broke, {s} blamed",
    "After dinner {a} and {b} played cards in the {place}, and twice {s} lost a {thing} to",
    "Nobody in the {place} knew {a} or {b}. All evening {s} talked only with",
    "In the {place} {a} sat opposite {b}. By and by {s} pushed the {thing} across the table to",
    "Both {a} and {b} had come to the {place} by train, and it was {s} who first spoke to",
    "Since {a} and {b} had quarrelled at the {place}, {s} refused to dance with",
    "You could see {a} and {b} from the {place}. Just then {s} waved the {thing} at",
    "Of the two, {a} and {b}, only one needed the {thing}; so {s} bought it for",
    "There had been a wedding at the {place}: {a} and {b} were guests. Near midnight {s} whispered a secret to",
    "For years {a} and {b} ran the {place}. On Mondays {s} cooked a meal for",
)
PLACES = ("hotel", "shop", "ship", "farm", "palace", "club", "train", "village")
THINGS = ("book", "letter", "ring", "watch", "glass", "picture", "chair", "knife")
PRONOUNS = (
    ("{x} has a {thing} and {y} has a {other}. Since {he} dropped it, we must look for the", True),
    ("{x} bought the {thing}, {y} bought the {other}. Tomorrow {he} will bring the", True),
    ("{y} lost a {other} on the way, {x} lost a {thing}. Tonight {he} found the", True),
    ("{x} was asked about the {thing} and {y} about the {other}. All that {he} talked of was the", True),
)
NEEDLE_FACTS = "The {colour} box holds the {thing}."  # the battery's needle, in a longer text
COLOURS = ("red", "blue", "green", "black", "white", "brown")


@dataclass(frozen=True)
class Question:
    """A text, the right and a wrong next word, and where the right one stood."""

    text: str
    right: str
    wrong: str
    source: tuple[int, int]


def indirect_objects(count: int, seed: int = 0) -> list[Question]:
    """Who receives it? Both orders of each pair of names; names and templates occur in no training text."""
    found = []
    for index in range(count):
        draw = random.Random(f"{seed} {index // 2}")
        giver, receiver = draw.sample(sorted(NAMES), 2)
        first, second = (giver, receiver) if index % 2 else (receiver, giver)
        template = draw.choice(GIVING).replace("{place}", draw.choice(PLACES)).replace("{thing}", draw.choice(THINGS))
        text = template.format(a=first, b=second, s=giver)
        at = text.index(receiver)
        found.append(Question(text, receiver, giver, (at, at + len(receiver))))
    return found


def pronouns(count: int, seed: int = 0) -> list[Question]:
    """A man, a woman and a thing each: a pronoun says whose thing is meant."""
    found = []
    for index in range(count):
        draw = random.Random(f"{seed} pronoun {index // 2}")
        woman = draw.choice(WOMEN + WORDS["woman"])
        man = draw.choice(MEN + WORDS["man"])
        thing, other = draw.sample(THINGS, 2)
        x, y, he = (woman, man, "she") if index % 2 else (man, woman, "he")
        text = draw.choice(PRONOUNS)[0].format(x=x, y=y, thing=thing, other=other, he=he)
        at = text.index(thing)
        found.append(Question(text, thing, other, (at, at + len(thing))))
    return found


def succession(count: int, seed: int = 0) -> list[Question]:
    """Three members of a sequence in order; the next is due."""
    found = []
    for index in range(count):
        draw = random.Random(f"{seed} sequence {index}")
        members = draw.choice([each for name, each in SEQUENCES.items() if name != "letters"])
        at = draw.randrange(len(members) - 4)
        one, two, three, due = members[at : at + 4]
        text = f"The order was {one}, {two}, {three},"
        found.append(Question(text, due, two, (text.rindex(three), len(text) - 1)))
    return found


def needles(count: int, n_words: int, seed: int = 0) -> list[Question]:
    """The battery's needle in as many words of its plain sentences: three facts, one of them asked about."""
    found = []
    for index in range(count):
        draw = random.Random(f"{seed} needle {index}")
        boxes = list(zip(draw.sample(COLOURS, 3), draw.sample(THINGS, 3), strict=True))
        plain = [each for each in filler(n_words // 4, draw.randrange(10**6)) if not _mentions(each, THINGS)]
        kept: list[str] = []
        while plain and sum(len(each.split()) for each in kept) < n_words:
            kept.append(plain.pop())
        facts = [NEEDLE_FACTS.format(colour=colour, thing=thing) for colour, thing in boxes]
        for fact in facts:
            kept.insert(draw.randrange(len(kept) + 1), fact)
        text = " ".join([*kept, f"So we know that the {boxes[0][0]} box holds the"])
        stop = text.index(facts[0]) + len(facts[0]) - 1
        found.append(Question(text, boxes[0][1], boxes[1][1], (stop - len(boxes[0][1]), stop)))
    return found


def _mentions(text: str, words: Sequence[str]) -> bool:
    return any(f" {word}" in text for word in words)
