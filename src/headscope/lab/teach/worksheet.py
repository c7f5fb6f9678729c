"""Worksheets for paper: six short tasks on attention with fresh numbers from a seed, blank or solved.

Every solution is computed from the numbers as they are printed, so a student with a pencil gets the same digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headscope.errors import InputError
from headscope.lab.teach.worked_example import number, vector

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the tasks: the pronoun that reads, and four words that it may read."""

    sentence: str
    reader: str
    words: tuple[str, str, str, str]


EXAMPLES = (
    _Sentence("The dog chased the ball until it was tired", "it", ("dog", "ball", "until", "tired")),
    _Sentence("The cup fell off the table because it was round", "it", ("cup", "table", "because", "round")),
    _Sentence("The girl fed the horse although it was fat", "it", ("girl", "horse", "although", "fat")),
    _Sentence("The boat passed the bridge when it was open", "it", ("boat", "bridge", "when", "open")),
)


@dataclass(frozen=True)
class WorksheetTask:
    """One task: a text, a table to work in (the first row is its heading), blanks to fill, and how it is solved."""

    title: str
    text: str
    table: list[list[str]]
    blanks: list[str]
    answers: list[str]
    working: str


@dataclass(frozen=True)
class _Worksheet:
    """The tasks of one seed."""

    seed: int
    tasks: list[WorksheetTask]

    def to_dict(self, *, solved: bool) -> dict[str, Any]:
        """The worksheet as plain data; without ``solved`` it holds no answer."""
        tasks = [asdict(task) for task in self.tasks]
        for task in tasks if not solved else []:
            task["answers"], task["working"] = [], ""
        return {"seed": self.seed, "solved": solved, "tasks": tasks}

    def markdown(self, *, solved: bool) -> str:
        """The worksheet as Markdown, to print or to edit."""
        parts = [f"# Attention by hand, worksheet {self.seed}{' (solved)' if solved else ''}"]
        for index, task in enumerate(self.tasks, start=1):
            parts.append(f"## {index}. {task.title}\n\n{task.text}")
            if task.table:
                heading, *rows = (f"| {' | '.join(row)} |" for row in task.table)
                parts.append("\n".join([heading, "|" + " --- |" * len(task.table[0]), *rows]))
            filled = task.answers if solved else ["\\_\\_\\_\\_\\_\\_"] * len(task.blanks)
            parts.append("\n".join(f"- {blank} {answer}" for blank, answer in zip(task.blanks, filled, strict=True)))
            if solved:
                parts.append(task.working)
        return "\n\n".join(parts) + "\n"


def worksheet(seed: int) -> _Worksheet:
    """Draw the worksheet of this seed."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed={seed} is not between 0 and {LARGEST_SEED}")
    draw = random.Random(seed)
    example = draw.choice(EXAMPLES)
    makers: Sequence[Callable[[random.Random, _Sentence], WorksheetTask]] = (
        _scores, _shares, _average, _two_heads, _triangle, _sizes,
    )  # fmt: skip
    return _Worksheet(seed, [make(draw, example) for make in makers])


def _term(one: int, two: int) -> str:
    """A product as it is written by hand: a negative number in brackets."""
    return "·".join(f"({number(value)})" if value < 0 else number(value) for value in (one, two))


def _scores(draw: random.Random, example: _Sentence) -> WorksheetTask:
    words, width = example.words, draw.choice((4, 16))
    dots = [2 * draw.randint(-3, 6) for _ in words]
    query = [draw.choice((-1, 1, 2)) for _ in range(2)]
    key = [draw.randint(-3, 3) for _ in range(2)]
    root = math.isqrt(width)
    product = query[0] * key[0] + query[1] * key[1]
    return WorksheetTask(
        "From query and key to a score",
        f"In “{example.sentence}”, the query of *{example.reader}* is q = {vector(query)} and the key of *{words[0]}* "
        f"is k = {vector(key)}. "
        f"Compute q·k. Then scale: the keys of a head of size d = {width} gave the products below; divide each by √d.",
        [["", *words], ["q·k", *map(number, dots)], ["q·k / √d", *[""] * len(words)]],
        ["q·k =", f"√{width} =", "scaled scores:"],
        [number(product), str(root), ", ".join(number(dot / root) for dot in dots)],
        f"q·k = {_term(query[0], key[0])} + {_term(query[1], key[1])} = {number(product)}. Each product "
        f"is divided by {root}, so that scores do not grow with the size of the head.",
    )


def _shares(draw: random.Random, example: _Sentence) -> WorksheetTask:
    words, scores = example.words, [*draw.sample((0, 1, 2, 3), 3), draw.choice((0, 1))]
    draw.shuffle(scores)
    exponentials = [round(math.exp(score), 1) for score in scores]
    total = round(sum(exponentials), 1)
    shares = [exponential / total for exponential in exponentials]
    return WorksheetTask(
        "From scores to shares",
        "Softmax: take e to the power of each score, then divide by the sum (e⁰ = 1.0, e¹ = 2.7, e² = 7.4, "
        f"e³ = 20.1). Whom does *{example.reader}* read most in “{example.sentence}”?",
        [["", *words], ["score", *map(str, scores)], ["e to the score", *[""] * 4], ["share", *[""] * 4]],
        ["sum of the second row:", "shares, two digits:", "read most:"],
        [number(total), ", ".join(f"{share:.2f}" for share in shares), words[scores.index(max(scores))]],
        f"{' + '.join(number(one) for one in exponentials)} = {number(total)}; each share is its part of that, so the "
        "shares add up to 1 (up to rounding).",
    )


def _average(draw: random.Random, example: _Sentence) -> WorksheetTask:
    words, shares = example.words, draw.choice(([6, 2, 1, 1], [5, 3, 1, 1], [4, 4, 1, 1], [7, 1, 1, 1]))
    draw.shuffle(shares)
    values = [[draw.randrange(0, 10), draw.randrange(0, 10)] for _ in words]
    mean = [sum(share * value[axis] for share, value in zip(shares, values, strict=True)) / 10 for axis in range(2)]
    terms = " + ".join(f".{share}·{value[0]}" for share, value in zip(shares, values, strict=True))
    return WorksheetTask(
        "From shares to the head's output",
        f"The head's output for *{example.reader}* is the average of the values, weighted by the shares.",
        [["", *words], ["share", *(f".{share}" for share in shares)], ["value", *map(vector, values)]],
        ["z =", "If all shares were .25, z ="],
        [vector(mean), vector([sum(value[axis] for value in values) / 4 for axis in range(2)])],
        f"First number: {terms} = {number(mean[0])}; the second in the same way.",
    )


def _two_heads(draw: random.Random, example: _Sentence) -> WorksheetTask:
    one, two = ([draw.randint(-2, 5) for _ in range(2)] for _ in range(2))
    W_O = [[draw.choice((-1, 0, 1, 2)) for _ in range(2)] for _ in range(4)]
    both = one + two
    out = [sum(both[row] * W_O[row][column] for row in range(4)) for column in range(2)]
    terms = " + ".join(_term(value, W_O[row][0]) for row, value in enumerate(both))
    return WorksheetTask(
        "Two heads side by side, then mixed",
        f"Head 1 gives z₁ = {vector(one)}, head 2 gives z₂ = {vector(two)}. Lay them end to end, then multiply by W_O.",
        [
            ["row of W_O", "column 1", "column 2"],
            *([str(at), *map(number, row)] for at, row in enumerate(W_O, start=1)),
        ],
        ["end to end:", "times W_O:", "What would be lost if head 2 were zero? Output then:"],
        [
            vector(both),
            vector(out),
            vector([sum(one[row] * W_O[row][column] for row in range(2)) for column in range(2)]),
        ],
        f"First number: {terms} = {number(out[0])}. Rows 1–2 of W_O belong to head 1, rows 3–4 to head 2; their parts "
        "add up.",
    )


def _triangle(draw: random.Random, example: _Sentence) -> WorksheetTask:
    text = example.sentence.split()
    at = 2 + int(draw.random() * (len(text) - 3))
    shares = draw.choice(([5, 3, 2], [6, 3, 1], [4, 4, 2]))
    left = shares[0] + shares[1]
    kept = [shares[0] / left, shares[1] / left]
    return WorksheetTask(
        "The triangle",
        f"So far *{example.reader}* could read words that come later, as in an encoder. A model that writes may only "
        f"look back. Number the words of “{example.sentence}” from 1. And: a head gave three words the shares "
        f".{shares[0]}, .{shares[1]} "
        f"and .{shares[2]}, but the third comes later. It is left out before the softmax; what are the other two then?",
        [],
        [f"How many words can word {at + 1}, “{text[at]}”, look at?", "In an encoder (BERT):", "The two shares:"],
        [str(at + 1), str(len(text)), f"{kept[0]:.2f}, {kept[1]:.2f}"],
        f"Itself and everything before it. Without the third, the first two share out 1 in the same proportion: "
        f".{shares[0]} / {number(left / 10)} and .{shares[1]} / {number(left / 10)}.",
    )


def _sizes(draw: random.Random, example: _Sentence) -> WorksheetTask:
    d_head, n_heads, n_layers = draw.choice((64, 128)), draw.choice((8, 16, 32)), draw.choice((12, 24, 32))
    n_kv = draw.choice([count for count in (1, 2, 4, 8) if count < n_heads])
    cache = 2 * n_layers * n_kv * d_head * 2
    return WorksheetTask(
        "Reading a model card",
        f"A card says: d_model {n_heads * d_head:,}, {n_heads} heads, {n_kv} KV head{'s' * (n_kv > 1)}, {n_layers} "
        "layers, 2 bytes per number. The cache keeps one key and one value for each token, layer and KV head.",
        [],
        [
            "d_head =",
            "query heads that share one KV head:",
            "bytes of cache for each token:",
            "with as many KV heads as heads:",
        ],
        [str(d_head), str(n_heads // n_kv), f"{cache:,}", f"{cache * n_heads // n_kv:,}"],
        f"{n_heads * d_head} / {n_heads} = {d_head}; {n_heads} / {n_kv} = {n_heads // n_kv}; "
        f"2 · {n_layers} · {n_kv} · {d_head} · 2 bytes = {cache:,}.",
    )
