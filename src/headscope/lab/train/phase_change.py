"""Find where induction and other behaviours form in a film of training, and which numbers change with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headscope.errors import InputError
from headscope.heads.film import Film

ABSENT, FORMED = 0.1, 0.7
CHANCE, LEARNED = 0.5, 0.75  # share of right answers: of two words by chance, and from which a task counts as learned


@dataclass(frozen=True)
class Crossing:
    """Where a series first passes the midpoint of its range: between which two points, in tokens seen.

    ``end`` is the extreme, farthest from ``start`` at any point; ``last`` the value at the last point.
    """

    name: str
    start: float
    end: float
    last: float
    before: int
    after: int


def _crossing(name: str, values: Sequence[float], tokens: Sequence[float]) -> Crossing:
    """Find where a series first passes the midpoint between its first value and its extreme."""
    if not all(map(math.isfinite, values)):
        raise InputError(f"{name} was not measured at every point of this film, so it has no midpoint")
    start = values[0]
    end = max(values, key=lambda value: abs(value - start))
    if start == end:
        raise InputError(f"{name} does not change in this film, so it has no midpoint to cross")
    middle = (start + end) / 2
    index = next(index for index, value in enumerate(values) if (value - middle) * (end - start) >= 0)
    return Crossing(name, start, end, values[-1], int(tokens[index - 1]), int(tokens[index]))


def crossings(film: Film) -> list[Crossing]:
    """Where the three numbers that change when induction forms cross their midpoints."""
    tokens = film.series("tokens_seen")
    return [
        _crossing("previous-token score, best head", film.best("previous"), tokens),
        _crossing("induction score, best head", film.best("induction"), tokens),
        _crossing("loss on the second copy (nats)", film.series("second_copy"), tokens),
    ]


def phase_change(scores: Sequence[float]) -> tuple[int, int]:
    """The last point at which the best induction score is below ABSENT, and the first at which it reaches FORMED."""
    formed = next((index for index, score in enumerate(scores) if score >= FORMED), None)
    if formed is None:
        best = max(scores, default=0.0)
        raise InputError(f"no head of this film reaches an induction score of {FORMED}; its best is {best:.2f}")
    absent = [index for index in range(formed) if scores[index] < ABSENT]
    if not absent:
        raise InputError(f"induction never scores under {ABSENT} in this film; record it from the first step on")
    return absent[-1], formed


@dataclass(frozen=True)
class Behaviour:
    """A task of a film over its points: loss, share of right answers, and the head that ends with the most attention.

    ``before`` is the last point at which the share of right answers is below half of its way from chance to its end,
    ``after`` the next; both are None where the task is not learned.
    """

    name: str
    sentence: str
    loss: list[float | None]
    right: list[float]
    head: str
    attention: list[float]
    before: int | None
    after: int | None


def behaviours(film: Film) -> list[Behaviour]:
    """Every task of a film with its moment, the earliest first and those that are not learned last."""
    found = []
    for number, task in enumerate(film.tasks):
        loss = [float(each[number]) if each[number].isfinite() else None for each in film.task_loss]
        right = [float(each[number]) for each in film.task_right]
        best = int(film.task_attention[-1][:, number].argmax())
        attention = [float(each[best, number]) for each in film.task_attention]
        before = _moment(right)
        after = None if before is None else before + 1
        found.append(Behaviour(task["name"], task["sentence"], loss, right, film.heads[best], attention, before, after))
    return sorted(found, key=lambda each: len(film.points) if each.after is None else each.after)


def _moment(right: Sequence[float]) -> int | None:
    """The last point below half of the way from chance to the end; None where the task is not learned or always was."""
    if not right or right[-1] < LEARNED:
        return None
    middle = (CHANCE + right[-1]) / 2
    return next((index for index in reversed(range(len(right))) if right[index] < middle), None)
