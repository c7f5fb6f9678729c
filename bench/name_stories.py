"""Generate short stories about two named people from templates, as training text for a small model.

Novels seldom repeat a name within a sentence. These stories do, in many forms. The sentence commonly used to test
indirect object identification ("When A and B went to the shop, B gave a book to") is left out: its opening, its place
and its object do not occur.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

WOMEN = [
    "Mary",
    "Anne",
    "Jane",
    "Alice",
    "Emma",
    "Lucy",
    "Kate",
    "Rose",
    "Margaret",
    "Elizabeth",
    "Helen",
    "Clara",
    "Grace",
    "Sarah",
    "Ellen",
    "Fanny",
    "Laura",
    "Julia",
    "Charlotte",
    "Harriet",
    "Agnes",
    "Amy",
    "Emily",
    "Isabel",
    "Martha",
    "Susan",
]
MEN = [
    "John",
    "James",
    "George",
    "William",
    "Henry",
    "Charles",
    "Thomas",
    "Robert",
    "Edward",
    "Arthur",
    "Philip",
    "Walter",
    "Frank",
    "Harry",
    "Tom",
    "Richard",
    "Peter",
    "Paul",
    "Stephen",
    "Michael",
    "Joseph",
    "Frederick",
    "Albert",
    "Adam",
    "David",
    "Simon",
]
PLACES = [
    "the garden",
    "the station",
    "the library",
    "the kitchen",
    "the church",
    "the market",
    "the river",
    "the village",
    "the school",
    "the theatre",
    "the harbour",
    "the inn",
    "the farm",
    "the castle",
    "the wood",
    "the bridge",
    "the office",
    "the museum",
]
THINGS = [
    "a letter",
    "a ring",
    "a key",
    "a coat",
    "a lamp",
    "a basket",
    "a flower",
    "a map",
    "a knife",
    "a hat",
    "a coin",
    "an apple",
    "a candle",
    "a watch",
    "a picture",
    "a box",
    "a cup",
    "a ticket",
    "a blanket",
    "an umbrella",
]
GIVING = ["gave", "handed", "offered", "sent", "brought", "passed", "lent", "showed"]
SAYING = ["spoke", "turned", "waved", "listened", "whispered", "bowed"]

TEMPLATES = (
    "{A} and {B} walked to {place}. {A} {gave} {thing} to {B}.",
    "{A} met {B} at {place}, and {B} {gave} {thing} to {A}.",
    "After {A} and {B} came back from {place}, {A} {gave} {thing} to {B}.",
    "While {A} and {B} were at {place}, {B} {gave} {thing} to {A}.",
    "Then {A} and {B} sat down in {place}, and {B} {gave} {thing} to {A}.",
    "One day {A} saw {B} near {place}. {B} {said} to {A}, and {A} {said} to {B}.",
    "{A} and {B} lived by {place}. Every evening {A} {said} to {B}.",
    "At {place} {A} found {thing} and {gave} it to {B}. {B} thanked {A}.",
    "{A} had {thing}. {B} wanted it, so {A} {gave} it to {B}.",
    "{A} was tired, but {B} was not, so {B} went to {place} without {A}.",
    "{A} looked for {B} in {place}, but {B} had gone. {A} was sorry, because {subject} liked {B}.",
    "{A} lost {thing} at {place}. {B} found it there and {gave} it back to {A}.",
    "When {A} came to {place}, {B} was waiting for {object}. {A} smiled at {B}.",
    '"Where is {B}?" asked {A}. {B} was in {place}, and had {thing} for {A}.',
    "{A} asked {B} for {thing}. {B} went to {place} and brought {thing} to {A}.",
)


def sentence(draw: random.Random) -> str:
    """Draw one story about two different people."""
    first, second = draw.sample(WOMEN + MEN, 2)
    woman = first in WOMEN
    return draw.choice(TEMPLATES).format(
        A=first,
        B=second,
        place=draw.choice(PLACES),
        thing=draw.choice(THINGS),
        gave=draw.choice(GIVING),
        said=draw.choice(SAYING),
        subject="she" if woman else "he",
        object="her" if woman else "him",
    )


def documents(n: int, *, seed: int = 0) -> Iterator[str]:
    """Draw ``n`` documents of 3 to 12 stories each; equal seeds give equal documents."""
    draw = random.Random(seed)
    for _ in range(n):
        yield " ".join(sentence(draw) for _ in range(draw.randint(3, 12)))
