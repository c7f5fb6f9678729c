"""All kinds of generated text with their shares, drawn in parallel and written as JSON lines with marks."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from bench.curriculum import adjectives, agreement, bindings, brackets, negation, pronouns, scenes, sequences, tables
from bench.curriculum.honesty import refusal
from bench.curriculum.passage import Passage, World, passage
from bench.curriculum.people import NamePool

MOST_GENERATED = 0.2
CHUNK, LONG_CHUNK = 500, 40  # documents of one kind drawn from one seed
PARTS = 16  # chunks drawn at a time, on however many cores: equal seeds give equal text everywhere


@dataclass(frozen=True)
class Kind:
    """A kind of document, its share of generated rows in the short stage, and in the long one."""

    make: Callable[[World], str]
    share: float
    long_share: float


def _swapped(world: World) -> str:
    return scenes.document(world, swap=True)


KINDS: dict[str, Kind] = {
    "scenes": Kind(scenes.document, 0.16, 0.10),
    "scenes told the other way": Kind(_swapped, 0.16, 0.10),
    "pronouns": Kind(pronouns.document, 0.12, 0.08),
    "agreement": Kind(agreement.document, 0.10, 0.06),
    "adjectives": Kind(adjectives.document, 0.08, 0.05),
    "negation": Kind(negation.document, 0.08, 0.05),
    "sequences": Kind(sequences.document, 0.10, 0.06),
    "bindings": Kind(bindings.document, 0.10, 0.05),
    "long bindings": Kind(bindings.long_document, 0.0, 0.40),
    "tables": Kind(tables.document, 0.06, 0.03),
    "brackets": Kind(brackets.document, 0.04, 0.02),
}
PAIRED = {"scenes told the other way": "scenes"}  # drawn from the same seeds


def passages(kind: str, n: int, seed: int, pool: NamePool, hay: Sequence[str] = ()) -> Iterator[Passage]:
    """Documents of one kind; what honesty refuses is drawn again. Equal arguments give equal documents."""
    for number in range(n):
        for turn in range(100):
            draw = random.Random(f"{PAIRED.get(kind, kind)} {seed} {number} {turn}")
            made = passage(KINDS[kind].make(World(draw, pool, hay)))
            if refusal(made.text) is None:
                yield made
                break
        else:
            raise RuntimeError(f"a hundred documents of kind {kind!r} in a row were refused: {refusal(made.text)}")


@dataclass(frozen=True)
class Chunk:
    """As many documents as one process draws at a time."""

    kind: str
    seed: int
    n: int
    pool: NamePool
    hay: Sequence[str]

    def lines(self) -> str:
        drawn = passages(self.kind, self.n, self.seed, self.pool, self.hay)
        return "".join(json.dumps({"text": each.text, "marks": each.marks}) + "\n" for each in drawn)


def write(folder: Path, sizes: dict[str, int], seed: int, pool: NamePool, hay: Sequence[str]) -> dict[str, Path]:
    """Write one file per kind with at least so many bytes, on all cores."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {kind: folder / f"{kind.replace(' ', '-')}.jsonl" for kind in sizes}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as processes:
        for kind, size in sizes.items():
            written, at = 0, 0
            n = CHUNK if KINDS[kind].share else LONG_CHUNK
            with files[kind].open("w", encoding="utf-8") as file:
                while written < size:
                    chunks = [Chunk(kind, seed * 1_000_003 + at + k, n, pool, hay[k::PARTS]) for k in range(PARTS)]
                    for lines in processes.map(Chunk.lines, chunks):
                        written += file.write(lines)
                    at += PARTS
    return files


def frames(texts: Sequence[str], content: frozenset[str]) -> Counter[str]:
    """Sentences with their names and content words left out: how many different frames there are."""
    found: Counter[str] = Counter()
    for text in texts:
        for part in text.replace("\n", ". ").split(". "):
            words = part.split()
            found[" ".join("_" if w.strip(".,!?;:") in content or w[:1].isupper() else w for w in words)] += 1
    return found
