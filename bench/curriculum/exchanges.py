"""Exchanges: two or three people are named, and at once one does something to the one who is left; then come others.

A model that copies the name behind the giver's earlier copy is right without knowing who acts wherever the two were
named in this order before. Of two people who go on, both orders have soon been told, so that most answers can be looked
up. Here most answers are the first of their people, and the rule is right for little more than half of them.
"""

from __future__ import annotations

from bench.curriculum.acts import TOWARDS, UPON, WITH_A_THING
from bench.curriculum.deeds import in_words
from bench.curriculum.passage import World, answer, sentence
from bench.curriculum.people import Person
from bench.curriculum.scenes import thing
from bench.curriculum.words import GIVING, LEADS, MEETING, PLACES, WEATHER

IN_WORDS = 0.4  # of encounters are between common words
THREE = 0.3  # of encounters are between three people
AGAIN = 0.15  # of encounters have a second act
OF_NOVELS, SHORT, TRIES = 0.4, 60, 20  # acts that are deeds of novels, their most characters, and draws for one
TOGETHER = (
    "met",
    "sat down",
    "quarrelled",
    "were alone",
    "came home",
    "went out",
    "stood up",
    "were late",
    "waited",
    "spoke",
    "were friends",
    "walked on",
    "had supper",
    "were tired",
)
ALL = (  # for any number of people; these and the next fit behind "when" as well
    "{a} and {b} {together}",
    "{a} and {b} {together} at the {place}",
    "in the {place} were {a} and {b}",
)
CLAUSES = (
    *ALL,
    "{a} {upon} {b}",
    "{a} {towards} {b}",
    "{a} was there, and {b} too",
    "{a} lived near {b}",
    "{a} was in the {place}, {b} in the {other}",
    "{a} had {thing}, {b} had {thing2}",
    "{a} or {b} had to go",
)
ALL_AT_ONCE = (
    "there were {a} and {b}",
    "here are {a} and {b}",
    "it began with {a} and {b}",
    "nobody saw {a} or {b}",
    "first came {a}, then {b}",
    "we knew {a} and {b}",
)
SENTENCES = (
    *ALL_AT_ONCE,
    "{a} is older than {b}",
    "the {place} was between {a} and {b}",
    "not only {a} but also {b} came",
    "with {a} was {b}",
    "{a}'s friend was {b}",
    "they spoke of {a} and of {b}",
)
THE_THIRD = (
    "{s} and {t} {towards}",
    "{t} and {s} {upon}",
    "{s} told {t} about",
    "{s} hid {t} from",
    "{s} led {t} to",
    "{s} liked {t} better than",
    "with {t} at hand, {s} {upon}",
    "when {t} had gone, {s} {towards}",
    "{s} sent {t} to look for",
    "neither {s} nor {t} {upon}",
)
JOINTS = (". ",) * 6 + (", and ", ", and ", ", but ", ", so ", "; ", ": ", ", then ", " and ")


def named(world: World, people: list[Person], frames: tuple[str, ...]) -> str:
    """A clause that names all of them, in this order."""
    *others, last = (person.name for person in people)
    place, other = world.some(PLACES, 2)
    return world.pick(frames).format(
        a=", ".join(others),
        b=last,
        together=world.pick(TOGETHER),
        upon=world.pick((*MEETING, *UPON)),
        towards=world.pick(TOWARDS),
        place=place,
        other=other,
        thing=thing(world),
        thing2=thing(world),
    )


def act(world: World, people: list[Person]) -> str:
    """The first one does something to the last one, whose name is marked; one in the middle takes part."""
    giver, *third, receiver = people
    upon, towards = world.pick(UPON), world.pick(TOWARDS)
    if third:
        frame = world.pick(THE_THIRD).format(s=giver.name, t=third[0].name, upon=upon, towards=towards)
        return f"{frame} {answer(receiver.name)}"
    if world.maybe(OF_NOVELS) and (told := of_novels(world, giver, receiver)):
        return told
    with_a_thing = world.pick(WITH_A_THING).format(thing=thing(world, 0.2), gave=world.pick(GIVING))
    told = f"{giver.name} {world.pick((upon, towards, with_a_thing))} {answer(receiver.name)}"
    return f"{world.pick(LEADS)} {told}" if world.maybe(0.2) else told


def of_novels(world: World, giver: Person, receiver: Person) -> str:
    """A short deed of novels that fits the genders, without its full stop; empty if none was drawn."""
    for _ in range(TRIES if world.harvest.deeds else 0):
        deed = world.pick(world.harvest.deeds)
        fits = all(need in ("?", who.gender) for need, who in zip(deed.genders, (giver, receiver), strict=True))
        if fits and len(deed.told) <= SHORT:
            told = deed.told.format(a=giver.name, b=answer(receiver.name)).rstrip(".!?")
            return told if told.startswith(giver.name) else told[0].lower() + told[1:]
    return ""


def encounter(world: World, people: list[Person]) -> str:
    """People are named in this order, then comes an act, seldom another, in the same sentence or in one of its own."""
    clauses, others = (CLAUSES, SENTENCES) if len(people) == 2 else (ALL, ALL_AT_ONCE)
    first = act(world, world.some(people, len(people)))
    if world.maybe(0.15):
        told = f"{world.pick(('when', 'after', 'because', 'while', 'as'))} {named(world, people, clauses)}, {first}"
    else:
        told = joined(world, named(world, people, clauses + others), first)
    if world.maybe(AGAIN):
        told = joined(world, told, act(world, world.some(people, len(people))))
    told = f"{sentence(told)}."
    return in_words(world, told, people) if world.names.words and world.maybe(IN_WORDS) else told


def joined(world: World, told: str, then: str) -> str:
    """The second clause behind the first, in the same sentence or in another."""
    joint = world.pick(JOINTS)
    between = f". {world.pick(WEATHER)}" if world.maybe(0.08) else ""
    return f"{told}{between}{joint}{sentence(then) if joint == '. ' else then}"


def document(world: World) -> str:
    """Encounters of other people each time."""
    return " ".join(
        encounter(world, world.people(3 if world.maybe(THREE) else 2)) for _ in range(world.draw.randint(3, 9))
    )
