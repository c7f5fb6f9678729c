"""Negation: what follows depends on whether a “not” was said."""

from __future__ import annotations

from bench.curriculum.passage import World, answer, prose, sentence
from bench.curriculum.scenes import gap
from bench.curriculum.words import LEADS, OF_PLACES, OF_THINGS, PERSONAL, PLACES, THINGS, TRADES, VERBS

DENIED = (
    "{who} was not {x}",
    "{who} was never {x}",
    "{who} was not at all {x}",
    "{who} was by no means {x}",
    "nobody would have called {who} {x}",
    "{who} had not once been {x}",
    "it is not true that {who} was {x}",
    "{who} was not, whatever people said, {x}",
    "{who} was no longer {x}",
    "{who} did not look {x}",
)
STATED = (
    "{who} was {x}",
    "{who} was always {x}",
    "{who} was certainly {x}",
    "{who} was, as people said, {x}",
    "anybody would have called {who} {x}",
    "{who} had often been {x}",
    "it is true that {who} was {x}",
    "{who} looked {x}",
    "{who} was still {x}",
    "{who} was more than a little {x}",
)


def state(world: World) -> str:
    """A denied state turns into its opposite, a stated one stays."""
    who, states = world.pick(
        (
            (world.people(1)[0].name, PERSONAL),
            (f"the {world.pick(TRADES)}", PERSONAL),
            (f"the {world.pick(PLACES)}", OF_PLACES),
            (f"the {world.pick(THINGS)}", OF_THINGS),
        )
    )
    pair = world.pick(states)
    x, opposite = pair if world.maybe(0.5) else pair[::-1]
    denied = world.maybe(0.5)
    told = world.pick(DENIED if denied else STATED).format(who=who, x=x)
    right = opposite if denied else x
    end = world.pick(
        (
            f"in other words, {who} was {answer(right)}",
            f"that is to say {answer(right)}",
            f"so we may call it {answer(right)}",
            f"was {who} {x}? {answer('No' if denied else 'Yes')}",
            f"{x}: {answer('false' if denied else 'true')}",
            f"everybody agreed: {answer(right)}",
            f"{world.pick(LEADS)} one could see that {who} was {answer(right)}",
        )
    )
    between = [gap(world, [])] * world.maybe(0.2)
    return prose((world.told(told, 0.25), *between, end))


def deed(world: World) -> str:
    """One did it, the other did not."""
    one, other = world.people(2)
    verb, base, _, _ = world.pick(VERBS)
    told = world.pick(
        (
            f"{one.name} {verb}, but {other.name} did not",
            f"{other.name} did not {base}, but {one.name} did",
            f"{other.name} never {verb}, unlike {one.name}",
            f"not {other.name} but {one.name} {verb}",
            f"it was not {other.name} who {verb}, it was {one.name}",
            f"{one.name} would {base}, {other.name} would not",
        )
    )
    asked = world.pick((one, other))
    end = world.pick(
        (
            f"did {asked.name} {base}? {answer('Yes' if asked is one else 'No')}",
            f"the one who {verb} was {answer(one.name)}",
            f"the one who did not {base} was {answer(other.name)}",
        )
    )
    return f"{sentence(told)}. {sentence(end)}."


def document(world: World) -> str:
    return " ".join(world.pick((state, state, deed))(world) for _ in range(world.draw.randint(2, 6)))
