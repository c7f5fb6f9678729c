"""Novels with other names: every person of a passage is renamed, so that who is meant stands in the passage alone.

A model that reads a novel often knows its people by heart. Here the same prose has other people each time, of the same
gender; and where a passage has two of them, one may do something to the other at its end, as in a scene.
"""

from __future__ import annotations

import re

from bench.curriculum.held_out import MEN, WOMEN
from bench.curriculum.passage import World, answer
from bench.curriculum.scenes import transfer

from headscope.heads.roles.probes.grammar import WORDS

WORD = re.compile(r"\b[A-Z][a-z]+\b")
JUDGED = dict.fromkeys((*WOMEN, *WORDS["woman"]), "w") | dict.fromkeys((*MEN, *WORDS["man"]), "m")
SHORTEST, LONGEST, LEAST_NAMED = 900, 1500, 3


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
    if len(people) == 2 and world.maybe(0.7):
        giver, receiver = world.some(people, 2)
        act = transfer(world, giver, receiver)
        told += f"{world.pick((' ', chr(10)))}{act[0].upper()}{act[1:]}."
    return told
