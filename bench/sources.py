"""Which document an answer came from, on SmolLM2: python bench/sources.py [--model smollm2] [--cases 60] [--out FILE]

Five documents, one of which holds each possible answer; the source is the one that holds the answer that the model
gives itself. Named by hiding (`scope.sources`), by attention (mean of all heads), and by one backward pass (gradient of
the answer with respect to the odds of all arrows into a document). Kinds of cases: shuffled facts about people, colours
of things and places, contradictions, distractors that name the asked person, numbers, yes or no, and the answer in the
middle of some 1,500 tokens. With --cost: memory and processor time for ten documents of 2,000 tokens together.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import machine

from headscope.heads.explain.carriers import by_head, slopes_at
from headscope.heads.explain.sources import LEAST, Sources
from headscope.scope import Scope, load

RESULTS = Path(__file__).parent / "results" / "sources-cpu.json"
FIRST = "Read these notes and answer the question.\n"
PEOPLE = ["Anna", "Peter", "Maria", "Tom", "Laura", "David", "Susan", "Paul", "Helen", "George"]
CITIES = ["Paris", "London", "Berlin", "Rome", "Madrid", "Vienna", "Tokyo", "Boston", "Dublin", "Oslo"]
FOODS = ["bread", "rice", "soup", "fish", "cheese", "apples"]
COLOURS = ["red", "blue", "green", "white", "black", "yellow", "brown"]
THINGS = ["door", "gate", "boat", "lamp", "coat", "chair", "bridge"]
ROOMS = ["kitchen", "garden", "library", "cellar", "attic", "office"]
FILL = (
    "The house was old and the garden was full of flowers. In the morning the sun came through the window and the "
    "birds were singing in the trees. There was a table with four chairs, and on the table lay a book about the sea. "
    "After breakfast it was time to go for a walk along the river, where the water was clear and cold. "
)


@dataclass(frozen=True)
class Case:
    kind: str
    documents: list[str]
    answers: list[str]
    """What each document would answer; empty where it answers nothing."""
    question: str

    @property
    def prompt(self) -> str:
        return FIRST + "\n".join((*self.documents, self.question))


def facts(draw: random.Random, contradiction: bool = False) -> Case:
    people, cities, asked = draw.sample(PEOPLE, 5), draw.sample(CITIES, 5), draw.randrange(5)
    if contradiction:
        people[draw.choice([each for each in range(5) if each != asked])] = people[asked]
    documents = [
        f"{who} likes {draw.choice(FOODS)}. {who} lives in the city of {city}, near the park."
        for who, city in zip(people, cities, strict=True)
    ]
    question = f"Question: In which city does {people[asked]} live? Answer: {people[asked]} lives in the city of"
    return Case("contradiction" if contradiction else "facts", documents, cities, question)


def middle(draw: random.Random, fill: str = FILL) -> Case:
    """Ten long documents; the asked person's is in the middle, and one other says where its person lives."""
    people, asked = draw.sample(PEOPLE, 10), draw.randrange(3, 7)
    answers = [""] * 10
    answers[asked], answers[draw.choice([each for each in range(10) if each != asked])] = draw.sample(CITIES, 2)
    documents = [
        f"{who} likes {draw.choice(FOODS)}. {fill}{who} "
        + (f"lives in the city of {city}, near the park. " if city else "works in a shop, near the park. ")
        + fill.strip()
        for who, city in zip(people, answers, strict=True)
    ]
    question = f"Question: In which city does {people[asked]} live? Answer: {people[asked]} lives in the city of"
    return Case("middle", documents, answers, question)


def colours(draw: random.Random) -> Case:
    things, found, asked = draw.sample(THINGS, 5), draw.sample(COLOURS, 5), draw.randrange(5)
    documents = [
        f"The {a} was painted last year. Now the {a} is {b}, and it looks new."
        for a, b in zip(things, found, strict=True)
    ]
    question = f"Question: What colour is the {things[asked]}? Answer: The colour of the {things[asked]} is"
    return Case("colours", documents, found, question)


def distractors(draw: random.Random) -> Case:
    """One document says where a thing is; the others name it often and say nothing of where it is."""
    thing, person = draw.choice(THINGS), draw.choice(PEOPLE)
    rooms = draw.sample(ROOMS, 2)
    documents = [
        f"{person} bought the {thing} in a small shop. The {thing} was not cheap, and {person} liked the {thing}.",
        f"The {thing} is in the {rooms[0]}. {person} put it there after lunch.",
        f"Everybody asked {person} about the {thing}. The {thing} was the best {thing} that they had seen.",
        f"The cat sleeps in the {rooms[1]}. It does not care about the {thing}.",
        f"{person} wrote a letter about the {thing}, and the letter was long.",
    ]
    order = draw.sample(range(5), 5)
    answers = ["", rooms[0], "", rooms[1], ""]
    question = f"Question: Where is the {thing} of {person}? Answer: The {thing} is in the"
    return Case("distractors", [documents[at] for at in order], [answers[at] for at in order], question)


def numbers(draw: random.Random) -> Case:
    people, found, asked = (
        draw.sample(PEOPLE, 5),
        [str(each) for each in draw.sample(range(2, 40), 5)],
        draw.randrange(5),
    )
    documents = [
        f"{a} lives near the station. The number of cats of {a} is {b}, and they are white."
        for a, b in zip(people, found, strict=True)
    ]
    question = f"Question: How many cats does {people[asked]} have? Answer: The number of cats of {people[asked]} is"
    return Case("numbers", documents, found, question)


def yes_or_no(draw: random.Random) -> Case:
    people, asked = draw.sample(PEOPLE, 5), draw.randrange(5)
    said = ["", "", "", "", ""]
    said[asked], said[(asked + 1 + draw.randrange(4)) % 5] = draw.sample(["yes", "no"], 2)
    documents = [
        f"We asked {a} to come to the party. {a} said {b}, and then went home." if b
        else f"We asked {a} to come to the party. {a} has not written back, and is away."
        for a, b in zip(people, said, strict=True)
    ]  # fmt: skip
    question = f"Question: Does {people[asked]} come to the party, yes or no? Answer: {people[asked]} said"
    return Case("yes or no", documents, said, question)


KINDS: list[tuple[Callable[[random.Random], Case], int]] = [
    (facts, 12), (colours, 10), (lambda draw: facts(draw, contradiction=True), 10), (distractors, 8), (numbers, 8),
    (yes_or_no, 8), (middle, 4),
]  # fmt: skip


def by_gradient(found: Sources) -> list[float]:
    """What one backward pass says that each document is worth."""
    slopes = slopes_at(found.reader, 0)
    return [float(by_head(slopes, span).sum()) for span in found.spans.values()]


def measure(scope: Scope, case: Case) -> dict[str, Any]:
    """One case; without a source where not exactly one document holds what the model says."""
    start = time.process_time()
    found = scope.sources(case.documents, case.prompt)
    seconds, said = time.process_time() - start, found.answers[0]
    holders = [at for at, answer in enumerate(case.answers) if answer and answer == said.strip()]
    if len(holders) != 1:
        return {"kind": case.kind, "said": said, "source": None}
    named = {
        "hiding": found.effects[:, 0].tolist(), "attention": found.attention.tolist(), "gradient": by_gradient(found)
    }  # fmt: skip
    return {
        "kind": case.kind, "said": said, "source": holders[0], "tokens": len(found.reader.tokens),
        "passes": found.passes, "seconds": round(seconds, 2), "used": [number - 1 for number in found.used],
        "null": round(found.null(1 + holders[0]), 3),
        "all hidden": None if found.bare is None else round(float(found.whole[0] - found.bare[0]), 3),
        "named": {by: [round(each, 4) for each in values] for by, values in named.items()},
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How often each way names the source, by kind and in all, and its rank correlation with hiding."""
    asked = [row for row in rows if row["source"] is not None]
    found: dict[str, Any] = {"cases": len(rows), "answer is in one document": len(asked)}
    for by in ("hiding", "attention", "gradient"):
        right = [int(np.argmax(row["named"][by])) == row["source"] for row in asked]
        ranks = [_ranks(row["named"]["hiding"], row["named"][by]) for row in asked]
        kinds = dict.fromkeys(row["kind"] for row in asked)
        found[by] = {
            "names the source": f"{sum(right)} of {len(right)}",
            "share": round(float(np.mean(right)), 3),
            "rank correlation with hiding": round(float(np.mean(ranks)), 2),
            "by kind": {
                kind: f"{sum(r for r, row in zip(right, asked, strict=True) if row['kind'] == kind)} of "
                f"{sum(row['kind'] == kind for row in asked)}"
                for kind in kinds
            },
        }
    found["the source is among those called used"] = (
        f"{sum(row['source'] in row['used'] for row in asked)} of {len(asked)}"
    )
    quiet = [row for row in asked if row["source"] not in row["used"]]
    found["of the others, without all documents the answer is at least half as likely"] = (
        f"{sum((row['all hidden'] or 0.0) <= LEAST for row in quiet)} of {len(quiet)}"
    )
    return found


def cost(scope: Scope) -> dict[str, Any]:
    """What ten documents of 2,000 tokens together take: processor time in passes, and the most memory ever held."""

    def timed(work: Callable[[], Any]) -> tuple[Any, float]:
        start = time.process_time()
        return work(), time.process_time() - start

    case = middle(random.Random(0), FILL + FILL[:80])
    inputs = scope.model.prepare(case.prompt).inputs
    _, forward = timed(torch.no_grad()(lambda: scope.model.run(inputs)))
    found, all_documents = timed(lambda: scope.sources(case.documents, case.prompt))
    carried, carriers = timed(lambda: found.heads(1 + int(found.effects[:, 0].argmax())))
    return {
        "documents": len(case.documents), "tokens": len(found.reader.tokens), "passes": found.passes,
        "of them controls": sum(map(len, found.controls.values())), "seconds per pass": round(forward, 2),
        "documents in passes": round(all_documents / forward, 2), "carriers in passes": round(carriers / forward, 2),
        "peak gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "carriers": {"together": round(carried.together, 2), "everything": round(carried.everything, 2)},
    }  # fmt: skip


def _ranks(a: list[float], b: list[float]) -> float:
    return float(np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cost", action="store_true", help="measure the cost, and leave the cases as they are")
    parser.add_argument("--only", help="measure one kind of cases, and keep the rows of the others")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    draw, rows = random.Random(given.seed), []
    cases = [make(draw) for make, count in KINDS for _ in range(count)]
    with load(given.model) as scope:
        if given.cost:
            found = {"model": given.model, **cost(scope), "machine": machine()}
            given.out.with_name("sources-cost-cpu.json").write_text(json.dumps(found, indent=1) + "\n")
            print(json.dumps(found, indent=1))
            return
        if given.only:
            rows = [row for row in json.loads(given.out.read_text())["rows"] if row["kind"] != given.only]
            cases = [case for case in cases if case.kind == given.only]
        for case in cases[: given.cases]:
            rows.append(measure(scope, case))
            print(json.dumps(rows[-1])[:240], flush=True)
            done = {"model": given.model, "seed": given.seed, **summary(rows), "machine": machine(), "rows": rows}
            given.out.write_text(json.dumps(done, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    main()
