"""Scenes: a few people, places and things, and who gave what to whom.

A scene is composed of an opening that names the people, of things that happen meanwhile, and of transfers whose
receiver follows from the scene. The same seed with ``swap`` tells the same scene with the two people exchanged at the
transfer, so that only who did what tells the rows apart.
"""

from __future__ import annotations

from bench.curriculum.acts import TO_THE_OTHER
from bench.curriculum.passage import World, a, answer, prose
from bench.curriculum.people import Person
from bench.curriculum.words import ADJECTIVES, GIVING, LEADS, MEETING, PLACES, STATURES, THINGS, TRADES, VERBS, WEATHER

CAME = [
    "walked to",
    "ran to",
    "rode to",
    "drove to",
    "set out for",
    "hurried to",
    "waited at",
    "stopped at",
    "stayed at",
    "arrived at",
]
TAILS = (
    "",
    "",
    "",
    ", and that was that",
    " before it was too late",
    " at the door",
    ", who smiled",
    " and went home",
    " in front of everybody",
    ", as had been agreed",
    " instead",
    " without being asked",
    ", and both laughed",
)
AGAIN = (  # a person is named a second time, and will not be meant
    "{p} did not want {thing}",
    "{p} had already gone home",
    "{p} fell asleep",
    "{p} got nothing",
    "for {p} there was {thing}",
    "nobody asked {p}",
    "{p} had no time, or so {he} said",
    "it could not be {p}",
    "{p} was far away by then",
    "{thing} was not meant for {p}",
    "they had forgotten {p}",
    "{p} went to bed",
    "everybody thought of {p}, but {he} was ill",
    "first {p} got {thing}",
    "{p} left the room",
    "{p} refused",
)
LEFT = (
    "{thing} was given to {r}",
    "so they chose {r}",
    "there was nobody left but {r}",
    "it was the turn of {r}",
    "everything depended on {r}",
    "the rest was for {r}",
    "{thing} went to {r}",
    "that left only {r}",
    "the innkeeper {gave} {thing} to {r}",
    "a stranger {gave} {thing} to {r}",
    "the prize was won by {r}",
    "all eyes were on {r}",
    "the dog ran to {r}",
    "the one who stayed was {r}",
    "the letter was addressed to {r}",
    "they all waited for {r}",
    "the last place belonged to {r}",
    "{thing} must have come from {r}",
    "in the dark stood {r}",
    "it had to be {r}",
)
ALONE = (
    "stood up",
    "laughed",
    "hesitated for a moment",
    "came closer",
    "had an idea",
    "said nothing",
    "took off the hat",
    "was the first to speak",
)
GAPS = (
    "{p} {verb}",
    "{p} looked out of the window",
    "a {trade} went by",
    "{p} had to wait for a while",
    "{p} counted the steps",
    "{p} was {adj2} tired",
    "{p} lit a fire",
    "there was {thing2} on the ground",
    "{p} remembered a song",
    "the {trade} of the {place2} {verb}",
    "{p} talked about the {place2}",
    "nobody had seen {thing2} before",
    "{p} picked up {thing2} and put it down again",
)


def thing(world: World, chance: float = 0.5) -> str:
    """A noun phrase for a thing."""
    noun = world.pick(THINGS)
    described = f"{world.pick(ADJECTIVES)} {noun}" if world.maybe(chance) else noun
    return a(described) if world.maybe(0.6) else f"the {described}"


def introduced(world: World, person: Person) -> str:
    """A name, sometimes with something about the person."""
    trade, age = world.pick(TRADES), world.pick(STATURES)
    about = world.pick((f"the {trade}", f"{a(age)} {person.kind}", f"who was {a(trade)}", f"a friend of the {trade}"))
    return f"{person.name}, {about}," if world.maybe(0.15) else person.name


def opening(world: World, people: list[Person]) -> str:
    """A sentence or two that names everyone, in an order and form that vary."""
    names = [introduced(world, person) for person in people]
    together = f"{', '.join(names[:-1])} and {names[-1]}"
    place, other = world.some(PLACES, 2)
    lead = world.pick(LEADS)
    if len(people) > 2 or world.maybe(0.4):
        return world.pick(
            (
                f"{together} {world.pick(CAME)} the {place}",
                f"{lead} {together} {world.pick(CAME)} the {place}",
                f"{together} lived near the {place}",
                f"in the {place} of the old {other} there were {together}",
                f"at the {place} one could find {together}",
                f"{together} were old friends",
                f"there was a quarrel between {together}",
                f"it was cold in the {place}, and {together} were alone",
                f"that year {together} worked for the {world.pick(TRADES)}",
                f"{together} made a plan",
                f"this is a story about {together}",
                f"everybody in the {place} knew {together}",
                f"{together} sat at one table of the {place}",
                f"the {world.pick(TRADES)} had invited {together}",
                f"between them {together} owned the {place}",
                f"only {together} were left in the {place}",
                f"the {place} was built by {together}",
                f"{together} did not like each other",
                f"{together} grew up together near the {other}",
                f"someone had seen {together} behind the {place}",
                f"what happened at the {place} is known to {together}",
            )
        )
    return _two(world, *names)


def _two(world: World, first: str, second: str) -> str:
    """An opening with one person after the other."""
    place, other = world.some(PLACES, 2)
    lead, met = world.pick(LEADS), world.pick(MEETING)
    return world.pick(
        (
            f"{lead} {first} {met} {second} at the {place}",
            f"{first} {met} {second} by the {place}",
            f"{first} came from the {place}. {second} came from the {other}",
            f"{first} had a brother-in-law, {second}",
            f"at the {place} {first} {met} {second}",
            f"{first} was looking for {second} in the {place}",
            f"{first} {world.pick(CAME)} the {place}, and {second} was already there",
            f"{first} wrote to {second} about the {place}",
            f"the {place} was empty except for {first}. Then {second} came",
            f"nobody but {first} and {second} knew the way to the {place}",
            f"{first} could not find the {place}. {second} could",
            f"{first} dreamed of {thing(world)}, {second} of {thing(world)}",
            f'"Here is the {place}," said {first} to {second}',
        )
    )


def gap(world: World, people: list[Person]) -> str:
    """Something that happens meanwhile and settles nothing."""
    if world.maybe(0.4):
        return world.pick(WEATHER)
    third = world.pick(("the innkeeper", "a stranger", "someone", "the child", "an old sailor", "the dog"))
    return world.pick(GAPS).format(
        p=third,
        verb=world.pick(VERBS)[0],
        trade=world.pick(TRADES),
        thing2=thing(world),
        place2=world.pick(PLACES),
        adj2=world.pick(("a little", "terribly", "already", "not at all")),
    )


def transfer(world: World, giver: Person, receiver: Person) -> str:
    """One acts on the other; the other's name is the answer."""
    told = world.pick(TO_THE_OTHER).format(
        g=giver.name, r=answer(receiver.name), gave=world.pick(GIVING), thing=thing(world)
    )
    form = world.draw.randrange(7)
    if form == 0:
        return f"{world.pick(LEADS)} {told}{world.pick(TAILS)}"
    if form == 1:
        return f"{world.pick(LEADS)}, {world.told(told, 0.15)}{world.pick(TAILS)}"
    if form == 2:
        return f"{gap(world, [giver])}, and {told}{world.pick(TAILS)}"
    if form == 3:
        reason = f"it was {world.pick(('late', 'cold', 'dark', 'Sunday', 'a holiday'))}"
        return f"{world.pick(('because', 'since', 'although', 'as'))} {reason}, {told}"
    if form == 4:
        return f"{giver.name} {world.pick(ALONE)}. {told[0].upper() + told[1:]}{world.pick(TAILS)}"
    return world.told(told, 0.3) + world.pick(TAILS)


def scene(world: World, *, swap: bool = False) -> str:
    """A page: an opening, things that happen, and transfers between two people who stay."""
    people = world.people(2)
    parts = [world.told(opening(world, people), 0.2)]
    if world.hay and world.maybe(0.2):
        parts.append(world.pick(world.hay).split("\n")[0][:600].rpartition(".")[0] or gap(world, people))
    giver, receiver = people if world.maybe(0.5) else people[::-1]
    if swap:
        giver, receiver = receiver, giver
    for _ in range(world.draw.randint(1, 4)):
        parts += [gap(world, people) for _ in range(world.pick((0, 0, 1, 1, 2)))]
        parts.append(transfer(world, giver, receiver))
        if world.maybe(0.5):
            giver, receiver = receiver, giver
    return prose(parts)


def left_over(world: World, *, swap: bool = False) -> str:
    """Two to four people of whom all but one are named again: the last one is meant, wherever the others stood."""
    people = world.people(world.pick((2, 3, 3, 4)))
    parts = [world.told(opening(world, people), 0.2)]
    order = world.some(people, len(people))
    if swap:
        order = [*order[1:], order[0]]
    *others, last = order
    for person in others:
        parts.append(world.told(world.pick(AGAIN).format(p=person.name, thing=thing(world), he=person.he), 0.15))
        parts += [gap(world, people)] * world.maybe(0.25)
    end = world.pick(LEFT).format(r=answer(last.name), thing=thing(world), gave=world.pick(GIVING))
    parts.append(f"{world.pick(LEADS)} {end}{world.pick(TAILS)}" if world.maybe(0.4) else end + world.pick(TAILS))
    return prose(parts)


def owners(world: World) -> str:
    """Three people with a thing each; things change hands, and the end asks who has what."""
    people = world.people(3)
    things = world.some(THINGS, 3)
    holder = dict(zip(things, people, strict=True))
    parts = [opening(world, people)]
    parts += [f"{person.name} had the {item}" for item, person in world.some(list(holder.items()), 3)]
    for _ in range(world.draw.randint(1, 3)):
        item = world.pick(things)
        receiver = world.pick([person for person in people if person is not holder[item]])
        parts.append(f"{holder[item].name} {world.pick(GIVING)} the {item} to {receiver.name}")
        holder[item] = receiver
        parts += [gap(world, people)] * world.maybe(0.5)
    for item in world.some(things, world.draw.randint(1, 3)):
        parts.append(
            world.pick(
                (
                    f"now the {item} belonged to {answer(holder[item].name)}",
                    f"whoever wanted the {item} had to ask {answer(holder[item].name)}",
                    f"in the end the {item} was with {answer(holder[item].name)}",
                    f"the {item}: {answer(holder[item].name)}",
                )
            )
        )
    return prose(parts)


def document(world: World, *, swap: bool = False) -> str:
    kind = world.draw.random()
    if kind < 0.12:
        return owners(world)
    return left_over(world, swap=swap) if kind < 0.42 else scene(world, swap=swap)
