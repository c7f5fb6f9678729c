"""All kinds of generated text with their shares, drawn in parallel and written as JSON lines with marks."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from bench.curriculum import (
    adjectives,
    agreement,
    bindings,
    brackets,
    deeds,
    exchanges,
    negation,
    pronouns,
    renamed,
    scenes,
    sequences,
    tables,
)
from bench.curriculum.honesty import refusal
from bench.curriculum.passage import Passage, World, passage
from bench.curriculum.weave import woven

MOST_GENERATED = 0.2
WOVEN = 0.5
CHUNK, LONG_CHUNK = 500, 40  # documents of one kind drawn from one seed
PARTS = 16  # chunks drawn at a time, on however many cores: equal seeds give equal text everywhere


@dataclass(frozen=True)
class Kind:
    """A kind of document, its share of generated rows in the short stage, and in the long one."""

    make: Callable[[World], str]
    share: float
    long_share: float
    is_prose: bool = False


def _swapped(world: World) -> str:
    return scenes.document(world, swap=True)


KINDS: dict[str, Kind] = {
    "scenes": Kind(scenes.document, 0.05, 0.04, is_prose=True),
    "scenes told the other way": Kind(_swapped, 0.05, 0.04, is_prose=True),
    "deeds of novels": Kind(deeds.document, 0.34, 0.18),
    "exchanges": Kind(exchanges.document, 0.0, 0.0),  # not trained on yet: name it in --shares
    "novels with other names": Kind(renamed.document, 0.10, 0.08),
    "pronouns": Kind(pronouns.document, 0.12, 0.07),
    "agreement": Kind(agreement.document, 0.06, 0.04, is_prose=True),
    "adjectives": Kind(adjectives.document, 0.05, 0.04, is_prose=True),
    "negation": Kind(negation.document, 0.05, 0.04, is_prose=True),
    "sequences": Kind(sequences.document, 0.05, 0.04),
    "bindings": Kind(bindings.document, 0.09, 0.03),
    "long bindings": Kind(bindings.long_document, 0.0, 0.36),
    "tables": Kind(tables.document, 0.02, 0.02),
    "brackets": Kind(brackets.document, 0.02, 0.02),
}
PAIRED = {"scenes told the other way": "scenes"}  # drawn from the same seeds


def passages(kind: str, n: int, seed: int, world: World) -> Iterator[Passage]:
    """Documents of one kind; what honesty refuses is drawn again. Equal arguments give equal documents."""
    for number in range(n):
        for turn in range(100):
            draw = random.Random(f"{PAIRED.get(kind, kind)} {seed} {number} {turn}")
            made = passage(_composed(KINDS[kind], replace(world, draw=draw)))
            if refusal(made.text) is None:
                yield made
                break
        else:
            raise RuntimeError(f"a hundred documents of kind {kind!r} in a row were refused: {refusal(made.text)}")


def _composed(kind: Kind, world: World) -> str:
    """A document of this kind; half of those that are prose are woven into a novel's."""
    made = kind.make(world)
    return woven(world, made) if kind.is_prose and world.hay and world.maybe(WOVEN) else made


@dataclass(frozen=True)
class Chunk:
    """As many documents as one process draws at a time."""

    kind: str
    seed: int
    n: int
    world: World

    def lines(self) -> str:
        drawn = passages(self.kind, self.n, self.seed, self.world)
        return "".join(json.dumps({"text": each.text, "marks": each.marks}) + "\n" for each in drawn)


def write(folder: Path, sizes: dict[str, int], seed: int, world: World) -> dict[str, Path]:
    """Write one file per kind with at least so many bytes, on all cores."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {kind: folder / f"{kind.replace(' ', '-')}.jsonl" for kind in sizes}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as processes:
        for kind, size in sizes.items():
            written, at = 0, 0
            n = LONG_CHUNK if KINDS[kind].long_share > KINDS[kind].share == 0 else CHUNK
            with files[kind].open("w", encoding="utf-8") as file:
                while written < size:
                    worlds = [_part(world, k, (at // PARTS) % PARTS) for k in range(PARTS)]
                    chunks = [Chunk(kind, seed * 1_000_003 + at + k, n, each) for k, each in enumerate(worlds)]
                    for lines in processes.map(Chunk.lines, chunks):
                        written += file.write(lines)
                    at += PARTS
    return files


def _part(world: World, k: int, turn: int) -> World:
    """The ``k``-th part of a world's paragraphs, and other passages of novels at each turn, to be sent elsewhere."""
    return replace(
        world,
        hay=world.hay[k::PARTS],
        windows=world.windows[k + PARTS * turn :: PARTS * PARTS],
        harvest=world.harvest.part(k, PARTS),
    )
