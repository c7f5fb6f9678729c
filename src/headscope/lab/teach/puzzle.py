"""Puzzles: find which head does what in a small model with jobs compiled into some heads; answers are marked."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from headscope.errors import InputError
from headscope.lab.compile import Compiled, CompileOptions, Program, compile_program
from headscope.lab.compile.words import CLASSES, START, VOCABULARY, sample_texts

JOBS = {
    "itself": "its own token",
    "previous token": "the token before",
    **{f"{steps} back": f"the token {word} back" for steps, word in ((2, "two"), (3, "three"), (4, "four"))},
    "first token": "the first token",
    "punctuation": "all punctuation so far",
    "last punctuation": "the last punctuation mark",
    "capitals": "all capitalised words so far",
    "last capitals": "the last capitalised word",
    "capitals, near 3": "capitalised words, near ones more",
    "digits": "all digits so far",
    "last digits": "the last digit",
    "function words": "all small words so far (the, of, and, …)",
    "decay 4": "all tokens, hardly any beyond ten back",
    "decay 16": "all tokens, fading slowly with distance",
    "copies": "all earlier copies of its token",
    "last copies": "the last earlier copy of its token",
    "after a copy": "what followed each earlier copy of its token",
    "last after a copy": "what followed the last earlier copy of its token",
    "two after a copy": "the second token after each earlier copy of its token",
    "after a copy of two": "what followed earlier copies of its token and the one before it, together",
    "start of sentence": "the first token of its sentence",
    "matching bracket": "from a closing bracket, the opening one",
    "last sentence ends": "the last end of a sentence",
}
"""What a head with a job attends to, in words, by the rule it is compiled from."""


@dataclass(frozen=True)
class _Level:
    jobs: int
    decoys: int
    rules: tuple[str, ...]


LEVELS = (
    _Level(1, 1, ("itself", "previous token", "2 back", "first token")),
    _Level(2, 2, ("itself", "previous token", "2 back", "3 back", "4 back", "first token")),
    _Level(1, 3, ("punctuation", "capitals", "digits", "function words")),
    _Level(2, 2, ("punctuation", "last punctuation", "capitals", "last capitals", "digits", "last digits")),
    _Level(2, 3, ("copies", "last copies", "previous token", "capitals")),
    _Level(1, 2, ("after a copy", "start of sentence", "two after a copy")),
    _Level(2, 3, ("capitals", "capitals, near 3", "last capitals", "decay 4", "decay 16")),
    _Level(2, 4, ("matching bracket", "last sentence ends", "start of sentence", "last punctuation")),
    _Level(2, 3, ("after a copy", "last after a copy", "two after a copy", "after a copy of two")),
    _Level(4, 4, ("after a copy", "last copies", "last digits", "capitals, near 3", "matching bracket", "3 back")),
)  # fmt: skip
"""Ten levels, each harder than the one before: how many jobs are drawn from which rules, among how many decoys."""


@dataclass(frozen=True)
class Told:
    """The reply to one answer."""

    head: str
    right: bool
    says: str


@dataclass(frozen=True)
class Puzzle:
    """One puzzle: ``load(puzzle.name)`` opens its model; ``choices`` are the jobs that its heads may have."""

    level: int
    seed: int
    text: str
    compiled: Compiled
    choices: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"puzzle-{self.level}-{self.seed}"

    @property
    def solution(self) -> dict[str, str]:
        """The job of each head that has one."""
        return {head: rule for head, rule in self.compiled.truth.items() if rule is not None}

    def mark(self, answers: Mapping[str, str]) -> list[Told]:
        """Say of each answer, a job by the name of a head, whether it is right."""
        return [self._told(head, rule) for head, rule in answers.items()]

    def _told(self, head: str, rule: str) -> Told:
        if head not in self.compiled.truth or rule not in self.choices:
            heads, jobs = ", ".join(self.compiled.truth), ", ".join(self.choices)
            raise InputError(f"{head}={rule}: the heads are {heads}; the jobs are {jobs}")
        truth = self.compiled.truth[head]
        if truth == rule:
            return Told(head, True, f"Right. {head} attends to: {self.choices[rule]}.")
        why = "its weights are random." if truth is None else "it has a job, but another one."
        return Told(head, False, f"Not {head}: {why}")


@lru_cache(maxsize=16)
def puzzle(level: int, seed: int) -> Puzzle:
    """Make a puzzle. The same level and seed give the same one."""
    if not (1 <= level <= len(LEVELS) and 0 <= seed < 2**31):
        raise InputError(f"level={level}, seed={seed}: levels are 1 to {len(LEVELS)}, and a seed is not negative")
    chosen = LEVELS[level - 1]
    generator = torch.Generator().manual_seed(1000 * seed + level)
    drawn = torch.randperm(len(chosen.rules), generator=generator)[: chosen.jobs].tolist()
    rules = tuple(chosen.rules[at] for at in drawn)
    options = CompileOptions(context=48, decoys=chosen.decoys, noise=0.01, seed=1000 * seed + level)
    compiled = compile_program(Program(f"puzzle {level}", rules), options)
    needed = [rule for rule in compiled.truth.values() if rule is not None]
    choices = {rule: JOBS[rule] for rule in JOBS if rule in (*chosen.rules, *needed)}
    return Puzzle(level, seed, _text(rules, 1000 * seed + level), compiled, choices)


def named(name: str) -> Puzzle:
    """The puzzle of a name such as ``puzzle-3-7``: its level and its seed."""
    found = re.fullmatch(r"puzzle-(\d{1,2})-(\d{1,9})", name)
    if found is None:
        raise InputError(f"{name!r} is not a puzzle. Write its level and a seed, such as puzzle-3-7")
    return puzzle(int(found[1]), int(found[2]))


def of_week(day: datetime.date) -> Puzzle:
    """Return the puzzle of the week of a day: the same for everyone, with the levels taking turns."""
    year, week, _ = day.isocalendar()
    return puzzle(week % len(LEVELS) + 1, 100 * year + week)


_PIECES = CLASSES["word pieces"]


def _text(rules: tuple[str, ...], seed: int) -> str:
    """A text in which each job has something to do: a sentence or two, then pieces of them again."""
    for draw in range(1000):
        words = [VOCABULARY[token] for token in sample_texts(1, 22, seed=1000 * seed + draw)[0]]
        words += [*words[5:11], *words[6:10]]
        pieces = all(words[at - 1] in CLASSES["content words"] for at, word in enumerate(words) if word in _PIECES)
        if pieces and "\n" not in words and all(_has_work(rule, words) for rule in rules):
            return "".join(words).removeprefix(START)
    raise AssertionError(f"no text for {rules} from seed {seed}")


def _has_work(rule: str, words: list[str]) -> bool:
    kind = rule.removeprefix("last ").partition(",")[0]
    if kind in CLASSES:
        return sum(word in CLASSES[kind] for word in words[1:-1]) >= 3
    needed = {"matching bracket": ")", "start of sentence": "."}.get(rule)
    return needed is None or needed in words[4:-3]
