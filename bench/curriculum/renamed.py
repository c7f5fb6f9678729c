"""Novels with other names: every person of a passage is renamed, so that who is meant stands in the passage alone.

A model that reads a novel often knows its people by heart. Here the same prose has other people each time, of the same
gender; and where a passage has two of them, one may do something to the other in its midst, as in a scene.
"""

from __future__ import annotations

import re

from bench.curriculum.deeds import deed
from bench.curriculum.held_out import MEN, WOMEN
from bench.curriculum.passage import World, answer, sentence
from bench.curriculum.people import Person
from bench.curriculum.scenes import transfer
from bench.curriculum.weave import ENDS

from headscope.heads.roles.probes.grammar import WORDS

WORD = re.compile(r"\b[A-Z][a-z]+\b")
JUDGED = dict.fromkeys((*WOMEN, *WORDS["woman"]), "w") | dict.fromkeys((*MEN, *WORDS["man"]), "m")
SHORTEST, LONGEST, LEAST_NAMED = 900, 1500, 3
AS_THEY_ARE = 0.3  # of passages keep their own names


def windows(text: str) -> list[str]:
    """Neighbouring paragraphs of a novel, together so many characters."""
    found: list[str] = []
    now = ""
    for paragraph in text.split("\n"):
        now = f"{now}\n{paragraph.strip()}".strip()
        if len(now) >= SHORTEST:
            found += [now] * (len(now) <= LONGEST)
            now = ""
    return found


def is_peopled(text: str, genders: dict[str, str]) -> bool:
    """Whether one person at least is named more than once."""
    named = [word for word in WORD.findall(text) if word in genders]
    return len(named) >= LEAST_NAMED and len(set(named)) < len(named)


def document(world: World) -> str:
    """A window with other names; a name is marked where it comes again."""
    genders = JUDGED | dict(world.names.found)
    text = world.pick(world.windows)
    named = list(dict.fromkeys(word for word in WORD.findall(text) if word in genders))
    if JUDGED.keys().isdisjoint(named) and world.maybe(AS_THEY_ARE):
        people = [Person(name, genders[name]) for name in named]
    else:
        people = world.people(len(named), "".join(genders[name] for name in named))
    others = dict(zip(named, people, strict=True))
    seen: set[str] = set()

    def rename(found: re.Match[str]) -> str:
        person = others.get(found[0])
        if person is None:
            return found[0]
        again = person.name in seen
        seen.add(person.name)
        return answer(person.name) if again else person.name

    told = WORD.sub(rename, text)
    return with_deeds(world, told, people) if len(people) == 2 and world.maybe(0.7) else told


def with_deeds(world: World, told: str, people: list[Person]) -> str:
    """One of two people does something to the other, once or more, between sentences after both were named."""
    sentences = ENDS.split(told)
    first = max(next(at for at, each in enumerate(sentences) if person.name in each) for person in people)
    places = sorted((world.draw.randint(first + 1, len(sentences)) for _ in range(world.pick((1, 1, 2)))), reverse=True)
    for place in places:
        giver, receiver = world.some(people, 2)
        told = f"{sentence(transfer(world, giver, receiver))}."
        sentences.insert(place, deed(world, people) if world.harvest.deeds and world.maybe(0.6) else told)
    return " ".join(sentences)
