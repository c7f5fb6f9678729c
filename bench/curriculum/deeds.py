"""Deeds: two people, and what one does to the other in sentences of novels, with names in place of the pronouns."""

from __future__ import annotations

import re

from bench.curriculum.harvest import Deed
from bench.curriculum.passage import World, answer, sentence
from bench.curriculum.people import Person
from bench.curriculum.scenes import gap, opening
from bench.curriculum.weave import sentences
from bench.curriculum.words import LEADS

PRONOUN = 0.15
IN_WORDS = 0.35  # of pairs have common words for names


def fitting(world: World, people: list[Person]) -> tuple[Deed, Person, Person]:
    """A deed, who does it and to whom: either of the two, as far as pronouns allow."""
    while True:
        deed = world.pick(world.harvest.deeds)
        giver, receiver = world.some(people, 2)
        if all(need in ("?", person.gender) for need, person in zip(deed.genders, (giver, receiver), strict=True)):
            return deed, giver, receiver


def deed(world: World, people: list[Person]) -> str:
    """One of the two does something to the other, whose name is marked, or who is a pronoun, as mostly in novels."""
    found, giver, receiver = fitting(world, people)
    told = found.told.format(a=giver.name, b=receiver.him if world.maybe(PRONOUN) else answer(receiver.name))
    form = world.draw.random()
    if form < 0.2:
        told = f"{world.pick(LEADS)} {_inner(told, giver)}"
    elif form < 0.35:
        told = f"{gap(world, people)}, and {_inner(told, giver)}"
    return sentence(told)


def _inner(told: str, giver: Person) -> str:
    """A sentence as it stands behind other words: its first word in lower case, unless it is the name."""
    return told if told.startswith(giver.name) else told[0].lower() + told[1:]


def both_named(world: World, people: list[Person]) -> str:
    """A beginning that names both, in either order."""
    first, second = (person.name for person in world.some(people, 2))
    if world.harvest.together and world.maybe(0.5):
        return world.pick(world.harvest.together).format(both=f"{first} and {second}")
    return sentence(f"{world.told(opening(world, world.some(people, 2)), 0.2)}.")


def document(world: World) -> str:
    """Pairs of people, named at first, and what one did to the other, between sentences in which nobody is named."""
    return " ".join(episode(world) for _ in range(world.draw.randint(1, 4)))


def episode(world: World) -> str:
    people = world.people(2)
    parts = [both_named(world, people)]
    for _ in range(world.pick((1, 1, 2, 3))):
        if world.hay and world.maybe(0.12):
            parts += sentences(world)[:1]
        elif world.maybe(0.12):
            parts.append(sentence(f"{gap(world, people)}."))
        parts.append(deed(world, people))
    told = " ".join(parts)
    return in_words(world, told, people) if world.names.words and world.maybe(IN_WORDS) else told


def in_words(world: World, told: str, people: list[Person]) -> str:
    """The same with common words for names: who is meant must not depend on which words are names."""
    words = dict(zip((person.name for person in people), world.some(world.names.words, len(people)), strict=True))
    return re.sub("|".join(rf"\b{re.escape(name)}\b" for name in words), lambda found: words[found[0]], told)
