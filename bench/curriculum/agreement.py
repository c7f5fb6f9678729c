"""Agreement: verbs agree with their subjects across other nouns, and say again who did it."""

from __future__ import annotations

from bench.curriculum.passage import World, a, answer, prose, sentence
from bench.curriculum.scenes import gap
from bench.curriculum.words import ADJECTIVES, LEADS, MEETING, PLACES, THINGS, TRADES, VERBS

BETWEEN = ["beside", "behind", "opposite", "above", "below", "beyond", "along", "from"]
PAIRS = (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
AFTER = {
    "is": ("here", "old", "ready", "in the way", "missing"),
    "was": ("here", "old", "sold", "on fire", "left behind"),
    "has": ("been sold", "come back", "no owner", "a number"),
    "does": ("not fit", "not belong here", "no harm"),
}


def plural(noun: str) -> str:
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def phrase(world: World, noun: str, many: bool, other: str, other_many: bool) -> str:
    """A noun with an attractor of the given number behind it."""
    head, attractor = (plural(word) if more else word for word, more in ((noun, many), (other, other_many)))
    verb = world.pick(VERBS)
    return world.pick(
        (
            f"the {head} {world.pick(BETWEEN)} the {attractor}",
            f"the {head} of the {attractor}",
            f"the {world.pick(ADJECTIVES)} {head} {world.pick(BETWEEN)} the {world.pick(ADJECTIVES)} {attractor}",
            f"the {head} that the {attractor} brought",
            f"the {head} which {'stand' if many else 'stands'} {world.pick(BETWEEN)} the {attractor}",
            f"the {head} {world.pick(BETWEEN)} the {attractor} of the {world.pick(PLACES)}",
            f"the {head}, unlike the {attractor},",
            f"the {head}, not the {attractor},",
            f"the {head} that {verb[0]} like the {attractor}",
        )
    )


def forms(world: World) -> str:
    """The verb's number follows the subject, not the nearest noun."""
    noun, other = world.some(THINGS + TRADES, 2)
    many, other_many = world.maybe(0.5), world.maybe(0.5)
    subject = phrase(world, noun, many, other, other_many)
    if world.maybe(0.6):
        pair = world.pick(PAIRS)
        return sentence(world.told(f"{subject} {answer(pair[many])} {world.pick(AFTER[pair[0]])}", 0.3) + ".")
    _, base, third, _ = world.pick(VERBS)
    return sentence(
        f"{subject} {answer(base if many else third)} {world.pick(('every day', 'at night', 'too', 'in winter'))}."
    )


def doers(world: World) -> str:
    """Two people, one verb: who did it?"""
    one, other = world.some(TRADES, 2)
    (verb, base, _, participle), (second, _, _, _) = world.some(VERBS, 2)
    met, place, between = world.pick(MEETING), world.pick(PLACES), world.pick(BETWEEN)
    told = world.pick(
        (
            f"the {one} who {met} the {other} {verb}",
            f"the {one} {between} the {other} {verb}",
            f"the {one} that the {other} {met} {verb}",
            f"while the {other} {second}, the {one} {verb}",
            f"the {other} {second} and the {one} {verb}",
            f"as soon as the {other} was gone the {one} of the {place} {verb}",
            f"the {one}, whom the {other} {met}, {verb}",
            f"{between} the {other} and the {place} {a(one)} {verb}",
            f"unlike the {other}, the {one} {verb}",
            f"the {one} from the {place} {met} the {other} and {verb}",
            f"though the {other} {second}, the {one} never {verb}",
        )
    )
    asked = world.pick(
        (
            f"who {verb}? The {answer(one)}",
            f"the one who {verb} was the {answer(one)}",
            f"so the {answer(one)} had {participle}",
            f"it was said that the {answer(one)} could {base} well",
            f"everyone talked about the {answer(one)}, who had {participle}",
            f"nobody had heard the {answer(one)} {base} before",
        )
    )
    meanwhile = [gap(world, [])] * world.maybe(0.3)
    begin = f"{world.pick(LEADS)} {told}" if world.maybe(0.3) else world.told(told)
    return prose((begin, *meanwhile, asked))


def document(world: World) -> str:
    return " ".join(world.pick((forms, doers, doers))(world) for _ in range(world.draw.randint(2, 6)))
