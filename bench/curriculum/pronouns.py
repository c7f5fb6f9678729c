"""Pronouns: gender and number choose between two candidates, and what follows depends on the choice."""

from __future__ import annotations

from bench.curriculum.passage import World, a, answer, prose, sentence
from bench.curriculum.people import Person
from bench.curriculum.scenes import gap
from bench.curriculum.words import ADJECTIVES, LEADS, PLACES, STATURES, THINGS, TRADES, VERBS

HAD = (
    "had {t}",
    "carried {t}",
    "was mending {t}",
    "owned {t}",
    "wanted {t}",
    "had found {t}",
    "was proud of {t}",
    "had come for {t}",
    "was painting {t}",
    "dreamed of {t}",
    "held {t}",
    "sold {t}",
)
THEN = (
    "{he} showed us the {t}",
    "what {he} liked was the {t}",
    "nothing pleased {him} like the {t}",
    "{he} would not part with the {t}",
    "{he} looked again at the {t}",
    "everybody admired {his} {t}",
    "it was {he} who had the {t}",
    "ask {him} about the {t}",
    "{he} put away the {t}",
    "{he} cleaned the {t}",
)


def described(world: World, person: Person) -> str:
    """A name; sometimes with a noun that tells the gender."""
    trade = world.pick(TRADES)
    if world.maybe(0.3):
        relation = "mother aunt niece" if person.gender == "w" else "father uncle nephew"
        return f"{person.name}, the {trade}'s {world.pick(relation.split())},"
    return f"{person.name}, {a(world.pick(STATURES))} {person.kind}," if world.maybe(0.1) else person.name


def belongings(world: World) -> str:
    """Two people of different gender with a thing each; a pronoun says whose is meant."""
    people = world.people(2, world.pick(("wm", "mw")))
    things = world.some(THINGS, 2)
    held = [world.pick(HAD).format(t=a(item)) for item in things]
    if world.maybe(0.2):
        held[1] = held[0].replace(a(things[0]), a(things[1]))
    told = [f"{described(world, person)} {had}" for person, had in zip(people, held, strict=True)]
    joint = world.pick((", and ", ". ", ", but ", "; ", ". Meanwhile ", ", while "))
    parts = [joint.join(sentence(each) if "." in joint and number else each for number, each in enumerate(told))]
    parts += [gap(world, people) for _ in range(world.pick((0, 0, 1)))]
    for index in world.some((0, 1), world.pick((1, 2))):
        person = people[index]
        said = world.pick(THEN).format(he=person.he, him=person.him, his=person.his, t=answer(things[index]))
        parts.append(f"{world.pick(LEADS)} {said}" if world.maybe(0.4) else world.told(said))
    return prose(parts)


def who(world: World) -> str:
    """A pronoun, and the name it stands for."""
    people = world.people(2, world.pick(("wm", "mw")))
    one = world.pick(people)
    place, (verb, base, _, _) = world.pick(PLACES), world.pick(VERBS)
    first, second = (described(world, person) for person in people)
    begin = world.pick(
        (
            f"{first} and {second} were at the {place}",
            f"{first} argued with {second} about the {place}",
            f"{first} {world.pick(('trusted', 'feared', 'admired', 'avoided', 'knew'))} {second}",
            f"{first} came from the {place}, and so did {second}",
            f"the {place} was shown to {first} by {second}",
        )
    )
    end = world.pick(
        (
            f"{one.he} {verb}, and so everyone looked at {answer(one.name)}",
            f"somebody heard {one.him} {base}: it was {answer(one.name)}",
            f"{one.he} {verb} first. That is to say, {answer(one.name)} {verb}",
            f"{one.he} {verb}; yes, {answer(one.name)} did",
            f'"{sentence(one.he)} {verb}," said the child, and meant {answer(one.name)}',
            f"{one.his} name was {answer(one.name)}",
        )
    )
    return prose((begin, *[gap(world, people)] * world.maybe(0.4), end))


def number(world: World) -> str:
    """One against many: he or she, they, it."""
    person = world.people(1)[0]
    trade, item = world.pick(TRADES), world.pick(THINGS)
    verb, _, _, _ = world.pick(VERBS)
    many = world.maybe(0.5)
    if world.maybe(0.5):
        begin = f"{person.name} met the {trade}s at the {world.pick(PLACES)}"
        end = f"{'they' if many else person.he} {verb}, all of them" if many else f"{person.he} {verb} alone"
        asked = f"who {verb}? The {answer(trade + 's')}" if many else f"who {verb}? {answer(person.name)}"
        return f"{begin}. {sentence(end)}. {sentence(asked)}."
    begin = (
        f"{person.name} took the {item}s out of the box" if many else f"{person.name} took the {item} out of the box"
    )
    end = f"{answer('they' if many else 'it')} {'were' if many else 'was'} {world.pick(ADJECTIVES)}"
    own = f"{person.name} hurt {answer('herself' if person.gender == 'w' else 'himself')}"
    return prose((begin, world.pick((end, own))))


def document(world: World) -> str:
    kinds = (belongings, belongings, who, number)
    return " ".join(world.pick(kinds)(world) for _ in range(world.draw.randint(1, 4)))
