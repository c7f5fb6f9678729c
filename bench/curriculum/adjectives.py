"""Adjectives: which one belongs to which noun."""

from __future__ import annotations

from bench.curriculum.agreement import BETWEEN
from bench.curriculum.passage import World, a, answer, sentence
from bench.curriculum.scenes import gap
from bench.curriculum.words import ADJECTIVES, GIVING, LEADS, PLACES, THINGS, TRADES


def told(world: World, pairs: list[tuple[str, str]]) -> str:
    """Two or three described things in one sentence."""
    phrases = [f"{adjective} {noun}" for adjective, noun in pairs]
    place, trade = world.pick(PLACES), world.pick(TRADES)
    listed = f"{', '.join(map(a, phrases[:-1]))} and {a(phrases[-1])}"
    if len(pairs) == 2 and world.maybe(0.5):
        one, two = phrases
        return world.pick(
            (
                f"the {one} stood {world.pick(BETWEEN)} the {two}",
                f"the {trade} bought {a(one)} but sold {a(two)}",
                f"nobody wanted the {one} after the {two} had come",
                f"{a(one)} is worth more than {a(two)}",
                f"inside the {one} lay {a(two)}",
                f"the {trade} {world.pick(GIVING)} the {one} to the owner of the {two}",
                f"first came {a(one)}, then {a(two)}",
                f"where the {one} had been there was now {a(two)}",
            )
        )
    return world.pick(
        (
            f"in the {place} there were {listed}",
            f"the {trade} sold {listed}",
            f"{listed} stood in the {place}",
            f"on the shelf one saw {listed}",
            f"the parcel held {listed}",
            f"all that the {trade} had left was {listed}",
            f"the {trade} dreamed of {listed}",
            f"{listed} came by post",
            f"the {trade} compared {listed}",
            f"choose between {listed}",
            f"for {listed} one gets little money in the {place}",
            f"the thief took {listed} out of the {place}",
            f"as a present there were {listed}",
            f"three times the {trade} counted {listed}",
            f"you see {listed} in this picture",
            f"the {trade} of the {place} had {listed}",
            f"the list named {listed}",
        )
    )


def asked(world: World, adjective: str, noun: str) -> str:
    """Ask for the adjective of a noun, or for the noun of an adjective."""
    return world.pick(
        (
            f"the {noun} was {answer(adjective)}",
            f"what was the {noun} like? It was {answer(adjective)}",
            f"the {answer(adjective)} {noun} was the better one",
            f"the {adjective} one was the {answer(noun)}",
            f"somebody asked for the {adjective} {answer(noun)}",
            f"look for something {adjective}, and you will find the {answer(noun)}",
            f"had it not been {answer(adjective)}, the {noun} would have been sold",
            f"the {noun} seemed very {answer(adjective)}",
            f"never was a {noun} so {answer(adjective)}",
            f"the {world.pick(TRADES)} described the {noun} as {answer(adjective)}",
            f"how {answer(adjective)} the {noun} was",
            f"only the {noun} was {answer(adjective)}",
            f"it was the {noun} that was {answer(adjective)}",
            f"a {noun} may be many things; this one was {answer(adjective)}",
            f"not everything was {adjective}: only the {answer(noun)}",
            f"of the {noun} they said only that it was {answer(adjective)}",
            f"something {adjective} fell: the {answer(noun)}",
            f"which {noun}? The {answer(adjective)} {noun}",
            f"{world.pick(LEADS)} the {world.pick(TRADES)} took the {adjective} {answer(noun)}",
        )
    )


def document(world: World) -> str:
    parts = []
    for _ in range(world.draw.randint(1, 4)):
        n = world.pick((2, 2, 3))
        pairs = list(zip(world.some(ADJECTIVES, n), world.some(THINGS, n), strict=True))
        parts += [world.told(told(world, pairs))] + [gap(world, [])] * world.maybe(0.3)
        parts += [world.told(asked(world, *pair)) for pair in world.some(pairs, world.draw.randint(1, n))]
    return " ".join(f"{sentence(part)}{'.' if part[-1] != '?' else ''}" for part in parts)
