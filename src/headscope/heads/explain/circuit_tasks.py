"""Tasks for circuits: pairs of a clean and a corrupted text whose answers differ, each answer one token."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.models.recording import OpenModel

N_PAIRS = 32
FEWEST = 4
TRIES = 40
NAMES = ("Mary", "John", "Tom", "James", "Anna", "Alice", "Paul", "Peter", "Jane", "George", "Sarah", "Henry", "Jack")
THINGS = (
    "book", "letter", "apple", "key", "ring", "coin", "cup", "hat", "lamp", "knife", "stone", "box", "bag", "coat",
)  # fmt: skip
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SINGULAR = ("man", "woman", "boy", "girl", "horse", "dog", "king", "tree", "house")
PLURAL = ("men", "women", "boys", "girls", "horses", "dogs", "kings", "trees", "houses")
MEN, WOMEN = (
    ("man", "boy", "king", "father", "brother", "uncle"),
    ("woman", "girl", "queen", "mother", "sister", "aunt"),
)

Drawn = tuple[Any, Any, Any, Any]
"""Clean, corrupted, right and wrong answer."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of a task."""

    clean: list[Any]
    corrupted: list[Any]
    answers: list[tuple[str | int, str | int]]


def _indirect_object(draw: random.Random) -> Drawn:
    one, two, other, thing = *draw.sample(NAMES, 3), draw.choice(THINGS)
    text = "When {} and {} went to the house, {} gave the {} to"
    return text.format(one, two, two, thing), text.format(one, two, other, thing), f" {one}", f" {two}"


def _successor(draw: random.Random) -> Drawn:
    start, other = draw.sample(range(len(NUMBERS) - 3), 2)
    text = "They counted {}, {}, {},"
    right, wrong = NUMBERS[start + 3], NUMBERS[other + 3]
    return text.format(*NUMBERS[start : start + 3]), text.format(*NUMBERS[other : other + 3]), f" {right}", f" {wrong}"


def _agreement(draw: random.Random) -> Drawn:
    place, near = draw.sample(range(len(SINGULAR)), 2)
    text = "The {} near the {}"
    right = (SINGULAR[place], PLURAL[place], " was", " were")
    one, other, yes, no = right if draw.random() < 0.5 else (PLURAL[place], SINGULAR[place], " were", " was")
    return text.format(one, SINGULAR[near]), text.format(other, SINGULAR[near]), yes, no


def _retrieval(draw: random.Random) -> Drawn:
    (one, two), (a, b, c) = draw.sample(NAMES, 2), draw.sample(THINGS, 3)
    text = "{} had the {}. {} had the {}. {} had the"
    return text.format(one, a, two, b, one), text.format(one, c, two, b, one), f" {a}", f" {c}"


def _pronouns(draw: random.Random) -> Drawn:
    man, woman, thing = draw.choice(MEN), draw.choice(WOMEN), draw.choice(THINGS)
    text = "The {} lost the {}, and"
    one, other, yes, no = (man, woman, " he", " she") if draw.random() < 0.5 else (woman, man, " she", " he")
    return text.format(one, thing), text.format(other, thing), yes, no


TEXTS: dict[str, Callable[[random.Random], Drawn]] = {
    "indirect object": _indirect_object,
    "successor": _successor,
    "agreement": _agreement,
    "retrieval": _retrieval,
    "pronouns": _pronouns,
}
TASKS = ("induction", *TEXTS)


def task_pairs(model: OpenModel, name: str, count: int = N_PAIRS) -> Pairs:
    """The pairs of a built-in task, or of a CSV file, that this model's tokens allow, all of one length."""
    if name.endswith(".csv"):
        return _read(Path(name))
    if name not in TASKS:
        raise InputError(f"there is no task {name!r}; there are {', '.join(TASKS)}, or give a CSV file")
    if name == "induction":
        return _induction(model, count)
    draw = random.Random(0)
    found = [drawn for drawn in (TEXTS[name](draw) for _ in range(count * TRIES)) if _fits(model, drawn)]
    by_length: dict[int, list[Drawn]] = {}
    for drawn in dict.fromkeys(found):
        by_length.setdefault(_length(model, drawn[0]), []).append(drawn)
    longest = max(by_length.values(), key=len, default=[])[:count]
    if len(longest) < FEWEST:
        raise InputError(
            f"{name}: only {len(longest)} pairs have answers of one token in this model and texts of one length; give "
            "your own pairs: scope.circuit(clean, corrupted, answers)"
        )
    return Pairs([d[0] for d in longest], [d[1] for d in longest], [(d[2], d[3]) for d in longest])


def _fits(model: OpenModel, drawn: Drawn) -> bool:
    clean, corrupted, right, wrong = drawn
    single = all(len(model.processor.token_ids(answer)) == 1 for answer in (right, wrong))
    return single and right != wrong and _length(model, clean) == _length(model, corrupted)


def _length(model: OpenModel, text: str) -> int:
    return int(model.prepare(text).inputs["input_ids"].shape[1])


def _induction(model: OpenModel, count: int) -> Pairs:
    """Make random tokens, repeated once; in the corrupted text, another token replaces the answer's first copy."""
    draw = random.Random(0)
    vocabulary = model.shape.vocabulary or 0
    first = min(vocabulary // 4, 300)
    clean, corrupted = [], []
    answers: list[tuple[str | int, str | int]] = []
    for _ in range(count):
        *tokens, other = draw.sample(range(first, vocabulary), 9)
        at = draw.randrange(3, 7)
        text = [*tokens, *tokens[:at]]
        changed = [*tokens[:at], other, *tokens[at + 1 :], *tokens[:at]]
        pad = 15 - len(text)
        front = draw.sample(range(first, vocabulary), pad)
        clean.append([*front, *text])
        corrupted.append([*front, *changed])
        answers.append((tokens[at], other))
    return Pairs(clean, corrupted, answers)


def _read(path: Path) -> Pairs:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    wanted = ("clean", "corrupted", "right", "wrong")
    missing = [name for name in wanted if not rows or name not in rows[0]]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}; it needs {', '.join(wanted)}, one pair per row")
    answers: list[tuple[str | int, str | int]] = [(row["right"], row["wrong"]) for row in rows]
    return Pairs([row["clean"] for row in rows], [row["corrupted"] for row in rows], answers)
