"""Weave generated text into prose: its sentences, in their order, between sentences of a novel, in theirs.

Text of one style is learned as a style: models answered scenes and not the same question in a novel's prose. Woven
documents have both on every page.
"""

from __future__ import annotations

import re

from bench.curriculum.passage import World

ENDS = re.compile(r"(?<=[.!?]) (?=[A-Z⟦])")
WORD = re.compile(r"\b[A-Z][a-z]+\b")
SHORTEST, LONGEST, MOST = 20, 260, 6


def woven(world: World, marked: str) -> str:
    """The composed text between up to six sentences of novels that name nobody."""
    theirs = sentences(world)
    ours = ENDS.split(marked)
    order = [True] * len(ours) + [False] * len(theirs)
    world.draw.shuffle(order)
    both = {True: iter(ours), False: iter(theirs)}
    return " ".join(next(both[own]) for own in order)


def sentences(world: World) -> list[str]:
    """Neighbouring sentences of one paragraph without names and without quotation marks."""
    known = {name for name, _ in world.names.found}
    paragraph = world.pick(world.hay)
    fitting = [
        each
        for each in ENDS.split(paragraph)
        if SHORTEST <= len(each) <= LONGEST
        and each[-1] in ".!?"
        and not set(each) & set('"“”⟦⟧')
        and known.isdisjoint(WORD.findall(each))
    ]
    return fitting[: world.draw.randint(1, MOST)]
