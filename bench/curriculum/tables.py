"""Repeated lists and tables, and words that occur twice."""

from __future__ import annotations

from bench.curriculum.passage import World, answer, sentence
from bench.curriculum.scenes import gap
from bench.curriculum.words import ADJECTIVES, PLACES, THINGS, TRADES


def items(world: World, n: int) -> list[str]:
    source = world.pick((THINGS, TRADES, PLACES, ADJECTIVES, None))
    return [person.name for person in world.people(n)] if source is None else world.some(source, n)


def listed(world: World, members: list[str], joint: str, *, known: bool = False) -> str:
    return joint.join(answer(each) if known and number else each for number, each in enumerate(members))


def again(world: World) -> str:
    """A list, and the same list again: whole, backwards, from the middle, or with another separator."""
    members = items(world, world.draw.randint(4, 12))
    joints = (", ", "\n", " ", "; ", " - ", " | ")
    first, second = world.pick(joints), world.pick(joints)
    how = world.draw.randrange(3)
    same = members if how == 0 else members[::-1] if how == 1 else members[world.draw.randrange(len(members) - 2) :]
    word = ("again", "backwards", "again")[how]
    begin = world.pick((f"{word}: ", f"the same {word}: ", f"{word} now: "))
    between = f" {sentence(gap(world, []))}." * world.maybe(0.5)
    return f"{listed(world, members, first)}.{between} {sentence(begin)}{listed(world, same, second, known=True)}."


def doubled(world: World) -> str:
    """A list in which one member stands twice: which?"""
    members = items(world, world.draw.randint(4, 10))
    twice = world.pick(members[:-1])
    at = (
        world.draw.randint(members.index(twice) + 2, len(members))
        if members.index(twice) + 2 <= len(members)
        else len(members)
    )
    members.insert(at, twice)
    end = world.pick(
        (
            f"twice on the list: {answer(twice)}",
            f"the one that came back was {answer(twice)}",
            f"strike out the second {answer(twice)}",
        )
    )
    return f"{listed(world, members, ', ')}. {sentence(end)}."


def removed(world: World) -> str:
    """The list without one member: the missing one is named."""
    members = items(world, world.draw.randint(3, 6))
    gone = world.pick(members)
    rest = world.some([each for each in members if each != gone], len(members) - 1)
    return f"{listed(world, members, ', ')}. Later only {listed(world, rest, ', ')} were left. Missing: {answer(gone)}."


def table(world: World) -> str:
    """Rows of a key and two values, then some of the rows in another order."""
    n = world.draw.randint(3, 7)
    keys, things, places = items(world, n), world.some(THINGS, n), world.some(PLACES, n)
    bar = world.pick((" | ", ", ", "\t", ": ", " = "))
    rows = list(zip(keys, things, places, strict=True))
    wide = world.maybe(0.5)
    told = "\n".join(bar.join(row if wide else row[:2]) for row in rows)
    asked = []
    for key, thing, place in world.some(rows, world.draw.randint(1, n)):
        asked.append(bar.join([key, answer(thing), *([answer(place)] if wide else [])]))
    return told + "\n" + world.pick(("", "\n", "Once more:\n", "To check:\n")) + "\n".join(asked) + "\n"


def document(world: World) -> str:
    return " ".join(world.pick((again, doubled, removed, table))(world) for _ in range(world.draw.randint(1, 3)))
