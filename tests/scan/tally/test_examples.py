"""The best examples are those that sorting all of them by hand gives, in whatever order batches are merged."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
import torch
from torch import Tensor

from headscope.scan.tally.examples import AFTER, BEFORE, NO_TOKEN, WINDOW, Best, Example, Span, best_of

QUESTIONS, HEADS, ROWS, LENGTH = 2, 3, 4, 50
NONE = float("-inf")


def batch(seed: int, first_document: int = 0) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, list[Span]]:
    """Rows of several pieces each; few different scores, so that many are equal, and some without an answer."""
    dice, spans = random.Random(seed), []
    offsets = dice.sample(range(0, 100_000, 100), 100)
    for row in range(ROWS):
        at = dice.randint(0, 3)
        while at < LENGTH - 4:
            stop = min(LENGTH, at + dice.randint(2, 30))
            spans.append(Span(row, at, stop, first_document + dice.randint(0, 3), offsets[len(spans)]))
            at = stop + dice.randint(0, 2)
    shape = (QUESTIONS, HEADS, len(spans))
    score, column, key = (torch.zeros(shape), torch.zeros(shape).long(), torch.zeros(shape).long())
    for place in torch.cartesian_prod(*map(torch.arange, shape)).tolist():
        span = spans[place[2]]
        score[tuple(place)] = dice.choice((NONE, 0.25, 0.5, 0.75))
        column[tuple(place)] = dice.randrange(span.start, span.stop)
        key[tuple(place)] = dice.randrange(span.start, span.stop)
    ids = torch.randint(0, 1000, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    return (score, column, key), ids, spans


def by_hand(made: list[tuple[tuple[Tensor, Tensor, Tensor], Tensor, list[Span]]], question: int, head: int) -> list[Example]:  # fmt: skip  # noqa: E501
    found = []
    for (scores, columns, keys), ids, spans in made:
        for number, span in enumerate(spans):
            score, column, key = (float(part[question, head, number]) for part in (scores, columns, keys))
            if score == NONE:
                continue
            window = range(int(column) - BEFORE, int(column) + AFTER + 1)
            tokens = [int(ids[span.row, at]) if span.start <= at < span.stop else NO_TOKEN for at in window]
            moved = span.offset - span.start
            found.append(Example(score, span.document, int(column) + moved, int(key) + moved, tokens))
    return sorted(found, key=lambda one: (-one.score, one.document, one.position))


@pytest.mark.parametrize("slots", [1, 4, 100])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_a_batch_are_the_first_of_all_in_order(seed: int, slots: int) -> None:
    made = batch(seed)
    best = best_of(*made, slots)
    for question in range(QUESTIONS):
        for head in range(HEADS):
            assert best.at(question, head) == by_hand([made], question, head)[:slots]


def test_batches_merged_in_any_order_give_the_same_examples() -> None:
    """Scores of later batches are equal to earlier ones as often as not: the place decides, not who came first."""
    parts = [batch(seed, 10 * seed) for seed in range(3)]
    for order in permutations(range(3)):
        best = Best.none(QUESTIONS, HEADS, 5)
        for number in order:
            best = best.merge(best_of(*parts[number], 5))
        for question in range(QUESTIONS):
            for head in range(HEADS):
                assert best.at(question, head) == by_hand(parts, question, head)[:5]


def test_where_nothing_has_an_answer_there_is_no_example() -> None:
    (score, column, key), ids, spans = batch(0)
    best = best_of((torch.full_like(score, NONE), column, key), ids, spans, 3)
    assert all(best.at(question, head) == [] for question in range(QUESTIONS) for head in range(HEADS))
    for part in (best.document, best.position, best.key, best.tokens):
        assert bool((part == -1).all()), "nothing of a place that was not an answer is kept"
    assert bool((best.score == -1.0).all())


def test_a_window_ends_where_its_piece_does() -> None:
    ids = torch.arange(100)[None]
    tops = tuple(torch.tensor(value)[None, None, None] for value in (0.5, 40, 39))
    (one,) = best_of(tops, ids, [Span(0, 35, 44, 7, 1000)], 1).at(0, 0)  # type: ignore[arg-type]
    assert (one.document, one.position, one.key) == (7, 1005, 1004)
    assert len(one.tokens) == WINDOW
    assert [token for token in one.tokens if token != NO_TOKEN] == list(range(35, 44))
    assert one.tokens[BEFORE] == 40, "the token that asks stands in its place"


def test_heads_of_one_site_are_put_back_where_they_came_from() -> None:
    whole = Best.none(QUESTIONS, HEADS, 5).merge(best_of(*batch(1), 5))
    other = Best.none(QUESTIONS, HEADS, 5)
    other.set(slice(1, 3), whole.only(slice(1, 3)))
    for question in range(QUESTIONS):
        assert other.at(question, 0) == []
        assert [other.at(question, head) for head in (1, 2)] == [whole.at(question, head) for head in (1, 2)]


def test_what_is_stored_comes_back() -> None:
    best = best_of(*batch(2), 4)
    again = Best.from_arrays(best.arrays())
    for name, part in best.arrays().items():
        assert torch.equal(again.arrays()[name], part)
        assert part.is_contiguous()
