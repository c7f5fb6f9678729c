"""Ordered lists: numbers, digits, days, months, ordinals, letters, Roman numerals."""

from __future__ import annotations

from bench.curriculum.passage import World, answer, sentence
from bench.curriculum.scenes import gap
from bench.curriculum.words import PLACES, THINGS, TRADES, VERBS

from headscope.heads.roles.probes.grammar import split_words

NUMBERS = split_words("""
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
""")
ORDINALS = split_words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = split_words("January February March April May June July August September October November December")
ROMAN = split_words("I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX")
LETTERS = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CYCLES = (DAYS, MONTHS)
KINDS = (NUMBERS, ORDINALS, DAYS, MONTHS, ROMAN, LETTERS, list("123456789"), [str(n) for n in range(1, 32)])


def stretch(world: World, least: int = 3) -> list[str]:
    """Neighbours in one of the sequences; days and months may wrap around."""
    members = world.pick(KINDS)
    n = world.draw.randint(least, min(len(members), 12))
    if members in CYCLES:
        at = world.draw.randrange(len(members))
        return [members[(at + index) % len(members)] for index in range(n)]
    at = world.draw.randint(0, len(members) - n)
    return members[at : at + n]


def counted(world: World) -> str:
    """A list in order, with the same separator or the same words between its members."""
    run = stretch(world)
    joint = world.pick((", ", " ", "; ", ", then ", " and ", " - ", "\n", ", after that ", " / "))
    begin = world.pick(
        ("", "", "count: ", "in order: ", f"the {world.pick(TRADES)} counted ", "they came in this order: ")
    )
    return begin + run[0] + "".join(joint + answer(each) for each in run[1:]) + world.pick((".", "", "\n"))


def agenda(world: World) -> str:
    """A list whose members have something behind them."""
    run, person = stretch(world), world.people(1)[0]
    form = world.draw.randrange(4)
    lines = []
    for number, each in enumerate(run):
        said = answer(each) if number else each
        trade, thing, place, verb = world.pick(TRADES), world.pick(THINGS), world.pick(PLACES), world.pick(VERBS)[0]
        lines.append(
            (
                f"{said}. {thing}\n",
                f"{said}: {person.name} {verb} at the {place}.\n",
                f"({said}) the {trade}; ",
                f"Chapter {said}. The {thing} of the {trade}.\n{sentence(gap(world, []))}.\n",
            )[form]
        )
    return "".join(lines)


def next_one(world: World) -> str:
    """What comes after one member."""
    now, due = stretch(world)[:2]
    return sentence(
        world.pick(
            (
                f"after {now} comes {answer(due)}.",
                f"what follows {now}? {answer(due)}.",
                f"if today it is {now}, next is {answer(due)}.",
                f"the one behind {now} is {answer(due)}.",
                f"{now} is over; now for {answer(due)}.",
                f"from {now} to {answer(due)}.",
                f"{now} had passed without news. On {answer(due)} a letter came.",
                f"not {now} but the next, {answer(due)}.",
            )
        )
    )


def document(world: World) -> str:
    return " ".join(world.pick((counted, agenda, next_one, next_one))(world) for _ in range(world.draw.randint(2, 5)))
