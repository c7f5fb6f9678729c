"""Brackets and quotation marks that have to be closed, in prose and in expressions."""

from __future__ import annotations

from bench.curriculum.passage import World, answer, inner, sentence
from bench.curriculum.scenes import gap, scene
from bench.curriculum.words import PLACES, THINGS, TRADES

PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"))
QUOTES = (('"', '"'), ("“", "”"), ("‘", "’"))


def nested(world: World, depth: int) -> str:
    """An expression of brackets of several kinds."""
    if depth == 0 or (depth < 3 and world.maybe(0.2)):
        return world.pick(THINGS)
    left, right = world.pick(PAIRS)
    inner = world.pick((", ", " ", " + ")).join(nested(world, depth - 1) for _ in range(world.draw.randint(1, 3)))
    name = world.pick(("", "", world.pick(TRADES), world.pick(PLACES)))
    return f"{name}{left}{inner}{answer(right)}"


def aside(world: World) -> str:
    """A sentence with a long remark in brackets or dashes."""
    left, right = world.pick((*PAIRS[:2], ("—", "—")))
    told, rest, *more = (inner(gap(world, [])) for _ in range(world.draw.randint(3, 5)))
    return f"{sentence(told)} {left}{', and '.join(more)}{answer(right)}, and then {rest}."


def speech(world: World) -> str:
    """Somebody says something, with a quotation inside at times."""
    left, right = world.pick(QUOTES)
    said = scene(world).replace("⟦", "").replace("⟧", "")
    sentences = said.split(". ")[: world.draw.randint(1, 3)]
    body = ". ".join(sentences).rstrip(".")
    if world.maybe(0.3) and left != "‘":
        body += f", and somebody cried ‘{world.pick(THINGS)}!{answer('’')}"
    return f"{left}{body}.{answer(right)} said the {world.pick(TRADES)}."


def document(world: World) -> str:
    made = []
    for _ in range(world.draw.randint(1, 4)):
        kind = world.draw.randrange(3)
        made.append(nested(world, world.pick((3, 3, 4))) if kind == 0 else aside(world) if kind == 1 else speech(world))
    return " ".join(made)
