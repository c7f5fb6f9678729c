"""Worksheets for paper: six short tasks on attention with fresh numbers from a seed, blank or solved.

Tasks 1 to 5 are one chain: q and k give the scores, the scores the shares, the shares the output, and W_O mixes it.
Every solution is computed from the numbers as they are printed, so a student with a pencil gets the same digits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from headscope.errors import InputError
from headscope.lab.teach.worked_example import number, vector

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the tasks: the pronoun that reads, and four words, the last of which comes after it."""

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
class ShownWorksheet:
    """A worksheet; its tasks have no ``answers`` and no ``working`` unless it is solved."""

    seed: int
    solved: bool
    tasks: list[WorksheetTask]


@dataclass(frozen=True)
class _Worksheet:
    """The tasks of one seed."""

    seed: int
    tasks: list[WorksheetTask]

    def shown(self, *, solved: bool) -> ShownWorksheet:
        tasks = self.tasks if solved else [replace(task, answers=[], working="") for task in self.tasks]
        return ShownWorksheet(self.seed, solved, tasks)

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


POWERS = {0: 1.0, 1: 2.7, 2: 7.4, 3: 20.1}
"""e to the power of each score, as the sheet prints it."""

ROOT = 2
"""√d of the chain's head: its queries and keys have four numbers."""


@dataclass(frozen=True)
class _Chain:
    """One head on one sentence, from its query to its output."""

    example: _Sentence
    query: list[int]
    keys: list[list[int]]
    scores: list[int]
    values: list[list[int]]

    @property
    def powers(self) -> list[float]:
        return [POWERS[score] for score in self.scores]

    @property
    def shares(self) -> list[float]:
        return _shared(self.powers)

    @property
    def output(self) -> list[float]:
        pairs = list(zip(self.shares, self.values, strict=True))
        return [round(sum(share * value[axis] for share, value in pairs), 2) for axis in range(2)]


def worksheet(seed: int) -> _Worksheet:
    """Draw the worksheet of this seed."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed={seed} is not between 0 and {LARGEST_SEED}")
    draw = random.Random(seed)
    chain = _chain(draw)
    tasks = [_scores(chain), _shares(chain), _average(chain), _two_heads(draw, chain), _triangle(chain), _sizes(draw)]
    return _Worksheet(seed, tasks)


def _chain(draw: random.Random) -> _Chain:
    """Draw a head whose scores are 0 to 3 with one winner, and whose shares add up to 1 as printed."""
    example = draw.choice(EXAMPLES)
    while True:
        scores = [*draw.sample(list(POWERS), 3), draw.choice((0, 1))]
        draw.shuffle(scores)
        powers = [POWERS[score] for score in scores]
        if all(round(100 * sum(_shared(some))) == 100 for some in (powers, powers[:-1])):
            break
    query = [draw.choice((-1, 1, 2)) for _ in range(ROOT**2)]
    keys = [_key(draw, query, ROOT * score) for score in scores]
    values = [[draw.randrange(10) for _ in range(2)] for _ in scores]
    return _Chain(example, query, keys, scores, values)


def _key(draw: random.Random, query: list[int], product: int) -> list[int]:
    """Draw a key whose product with the query is this one."""
    while True:
        key = [draw.randint(-2, 3) for _ in query]
        if sum(q * k for q, k in zip(query, key, strict=True)) == product:
            return key


def _shared(powers: list[float]) -> list[float]:
    return [round(power / sum(powers), 2) for power in powers]


def _decimals(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _terms(ones: list[int] | list[float], twos: list[int]) -> str:
    """A sum of products as it is written by hand: negative numbers in brackets."""
    by_hand = [[f"({number(value)})" if value < 0 else number(value) for value in many] for many in (ones, twos)]
    return " + ".join("·".join(pair) for pair in zip(*by_hand, strict=True))


def _scores(chain: _Chain) -> WorksheetTask:
    words, reader = chain.example.words, chain.example.reader
    products = [ROOT * score for score in chain.scores]
    return WorksheetTask(
        "From query and key to a score",
        f"In “{chain.example.sentence}”, the query of *{reader}* is q = {vector(chain.query)}. Multiply it with the "
        f"key of each word, number by number, and add up. Then divide by √d; here d = {ROOT**2}, the length of q. "
        f"Check: the four scores add up to {sum(chain.scores)}.",
        [["", *words], ["k", *map(vector, chain.keys)], ["q·k", *[""] * 4], ["score = q·k / √d", *[""] * 4]],
        ["the four q·k:", f"√{ROOT**2} =", "the four scores:"],
        [", ".join(map(number, products)), str(ROOT), ", ".join(map(number, chain.scores))],
        f"For *{words[0]}*: {_terms(chain.query, chain.keys[0])} = {number(products[0])}, and "
        f"{number(products[0])} / {ROOT} = {number(chain.scores[0])}.",
    )


def _shares(chain: _Chain) -> WorksheetTask:
    words, powers = chain.example.words, chain.powers
    return WorksheetTask(
        "From scores to shares",
        "Softmax: take e to the power of each of your scores, then divide by the sum (e⁰ = 1.0, e¹ = 2.7, e² = 7.4, "
        f"e³ = 20.1). Which word does *{chain.example.reader}* attend to most?",
        [["", *words], ["score, from task 1", *[""] * 4], ["e to the score", *[""] * 4], ["share", *[""] * 4]],
        ["sum of the second row:", "shares, two digits:", "most attention:"],
        [number(sum(powers)), _decimals(chain.shares), words[powers.index(max(powers))]],
        f"{' + '.join(number(one) for one in powers)} = {number(sum(powers))}. Each share is its part of that, so the "
        "shares add up to 1.",
    )


def _average(chain: _Chain) -> WorksheetTask:
    words, output = chain.example.words, chain.output
    return WorksheetTask(
        "From shares to the head's output",
        f"The head's output for *{chain.example.reader}* is the average of the values, weighted by your shares.",
        [["", *words], ["share, from task 2", *[""] * 4], ["value", *map(vector, chain.values)]],
        ["z =", "If all shares were .25, z ="],
        [vector(output), vector([sum(value[axis] for value in chain.values) / 4 for axis in range(2)])],
        f"First number: {_terms(chain.shares, [value[0] for value in chain.values])} = {number(output[0])}; the second "
        "in the same way.",
    )


def _two_heads(draw: random.Random, chain: _Chain) -> WorksheetTask:
    one, two = chain.output, [draw.randint(-2, 5) for _ in range(2)]
    W_O = [[draw.choice((-1, 0, 1, 2)) for _ in range(2)] for _ in range(4)]
    both = [*one, *two]
    out = [sum(both[row] * W_O[row][column] for row in range(4)) for column in range(2)]
    alone = [sum(one[row] * W_O[row][column] for row in range(2)) for column in range(2)]
    return WorksheetTask(
        "Two heads side by side, then mixed",
        f"Your z is z₁, the output of head 1. Head 2 gives z₂ = {vector(two)}. Join them end to end, then multiply by "
        "W_O.",
        [
            ["row of W_O", "column 1", "column 2"],
            *([str(at), *map(number, row)] for at, row in enumerate(W_O, start=1)),
        ],
        ["end to end:", "times W_O:", "What would be lost if head 2 were zero? Output then:"],
        [vector(both), vector(out), vector(alone)],
        f"First number: {_terms(both, [row[0] for row in W_O])} = {number(out[0])}. Rows 1–2 of W_O belong to head 1, "
        "rows 3–4 to head 2; their contributions add up.",
    )


def _triangle(chain: _Chain) -> WorksheetTask:
    text, late = chain.example.sentence.split(), chain.example.words[-1]
    at = text.index(chain.example.reader) + 1
    powers = chain.powers[:-1]
    return WorksheetTask(
        "The triangle",
        f"So far *{chain.example.reader}* could attend to words that come later, as in an encoder. A model that writes "
        f"may only look back, so *{late}* is left out before the softmax. Take the other three powers of e from task 2 "
        "and compute their shares again.",
        [],
        [
            f"Word {at} is “{text[at - 1]}”. How many words can it attend to?",
            "In an encoder (BERT):",
            "The three shares:",
        ],
        [str(at), str(len(text)), _decimals(_shared(powers))],
        f"Itself and everything before it. The sum is now {' + '.join(map(number, powers))} = {number(sum(powers))}, "
        "so each share grows in the same proportion.",
    )


def _sizes(draw: random.Random) -> WorksheetTask:
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
