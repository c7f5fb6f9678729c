"""Bindings: facts stated once among other text, and asked for much later."""

from __future__ import annotations

from collections.abc import Callable

from bench.curriculum.passage import World, a, answer, sentence
from bench.curriculum.pronouns import HAD
from bench.curriculum.scenes import scene
from bench.curriculum.words import ADJECTIVES, PLACES, THINGS, TRADES

Fact = tuple[str, str]  # how it is stated, and how it is asked for, with a marked answer


def fact(world: World, number: int, keys: dict[str, list[str]]) -> Fact:
    """One of many relations, in one of several wordings; ``keys`` keeps subjects and values apart."""
    item, value, place, trade, adjective = (keys[name][number] for name in ("a", "b", "place", "trade", "adjective"))
    person = keys["person"][number]
    right = answer(value)
    return world.pick(
        (
            (
                f"the password of the {place} is {value}",
                f"at the {place} you have to say the password, which is {right}",
            ),
            (
                f"{person} keeps the {value} in the {place}",
                f"if you go to the {place}, you will find {person}'s {right}",
            ),
            (f"the {trade} hid a {value} under the {item}", f"what the {trade} hid under the {item} was a {right}"),
            (f"the {adjective} drawer contains a {value}", f"we opened the {adjective} drawer and saw the {right}"),
            (f"the code word for the {item} is {value}", f"say the code word for the {item}: {right}"),
            (f"{person} collects nothing but {value}s", f"everybody knows that {person} collects {right}"),
            (
                f"in the {place} lives a {trade} called {person}",
                f"the {trade} in the {place} is called {answer(person)}",
            ),
            (
                f"the {adjective} house belongs to {person}",
                f"and who owns the {adjective} house? It is {answer(person)}",
            ),
            (f"a {value} was painted on the door of the {place}", f"you will know the {place} by its painted {right}"),
            (f"{person} became {a(trade)}", f"when we met again {person} was a famous {answer(trade)}"),
            (f"the {trade}'s favourite word is {value}", f"as ever, the {trade} said only one word: {right}"),
            (f"the ship called {person} carries {value}s", f"they unloaded the ship {person} and found a {right}"),
        )
    )


def facts(world: World, n: int) -> list[Fact]:
    """Facts of one relation, so that nothing but the subject tells them apart; or of mixed ones."""
    nouns = world.some(THINGS, 2 * n)
    keys = {
        "a": nouns[:n],
        "b": nouns[n:],
        "place": world.some(PLACES, n),
        "trade": world.some(TRADES, n),
        "adjective": world.some(ADJECTIVES, n),
        "person": [person.name for person in world.people(n)],
    }
    if world.maybe(0.4):
        return [fact(world, number, keys) for number in range(n)]
    state = world.draw.getstate()
    found = []
    for number in range(n):
        world.draw.setstate(state)
        found.append(fact(world, number, keys))
    return found


SAID_AGAIN = (
    "the {key} {kind} {verb} the {value}",
    "the {key} {kind} {verb} a {value}",
    "the {kind} of {person} {verb} the {value}",
    "{person} {verb} the {value}",
    "the {trade} {verb} the {value}",
    "in the {place} {person} {verb} the {value}",
    "the {kind} near the {place} {verb} the {value}",
    "number {number} {verb} the {value}",
    "behind the {key} {kind} is the {value}",
    "under the {key} {kind} lies the {value}",
    "the word for {value2} is {value}",
    "{person}'s {kind} is a {value}",
)
REMINDERS = (
    "",
    "",
    "remember that",
    "as I said,",
    "we have seen that",
    "once more:",
    "and indeed",
    "it is still true that",
    "nobody forgot that",
    "therefore",
    "you see,",
    "of course",
)


def said_again(world: World, n: int) -> list[Fact]:
    """Facts in one wording, of which each is said again word for word: the subject alone tells which was meant."""
    frame, kind = world.pick(SAID_AGAIN), world.pick((*THINGS, *PLACES))
    verb = world.pick(HAD)
    nouns = world.some((*THINGS, *world.harvest.nouns), 2 * n)
    people, numbers = world.people(n), world.some(range(1, 100), n)
    keys, places, trades = world.some(ADJECTIVES, n), world.some(PLACES, n), world.some(TRADES, n)
    found = []
    for index in range(n):
        told = frame.format(
            key=keys[index],
            kind=kind,
            verb=verb,
            person=people[index].name,
            trade=trades[index],
            place=places[index],
            number=numbers[index],
            value2=nouns[n + index],
            value="{value}",
        )
        asked = f"{world.pick(REMINDERS)} {told}".strip()
        found.append((told.format(value=nouns[index]), asked.format(value=answer(nouns[index]))))
    return found


def hidden(world: World, length: int) -> str:
    """State facts between paragraphs of novels or scenes of together about ``length`` characters, then ask."""
    known = (said_again if world.maybe(0.6) else facts)(world, world.draw.randint(2, 6))
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < length:
        paragraphs.append(world.pick(world.hay) if world.hay and world.maybe(0.8) else _plain(scene(world)))
    stated = [f"{sentence(each)}." for each, _ in known]
    for each in stated:
        at = world.draw.randrange(len(paragraphs) + 1) if world.maybe(0.7) else world.draw.randrange(2)
        paragraphs.insert(min(at, len(paragraphs)), each)
    questions = [f"{sentence(each)}." for _, each in world.some(known, world.draw.randint(1, min(3, len(known))))]
    joint = world.pick(("\n", " "))
    return joint.join([*paragraphs, *questions])


def _plain(marked: str) -> str:
    return marked.replace("⟦", "").replace("⟧", "")


def of_length(least: int, most: int) -> Callable[[World], str]:
    """A kind of document with as many characters between facts and questions; shorter ones are more frequent."""

    def document(world: World) -> str:
        return hidden(world, round(least * (most / least) ** world.draw.random()))

    return document


document = of_length(60, 1600)  # fits into a row of 512 tokens
long_document = of_length(1500, 13_000)  # up to some 3,500 tokens
