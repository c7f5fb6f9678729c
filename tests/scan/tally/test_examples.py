"""The top examples are those that sorting all of them gives, in whatever order batches are merged."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
import torch
from tests.scan.tally.examples import Example, examples_of
from torch import Tensor

from headscope.scan.corpus.packing import PackedRows, Piece
from headscope.scan.tally import AFTER, BEFORE, NO_TOKEN, WINDOW, TopExamples, top_examples

QUESTIONS, HEADS, ROWS, LENGTH = 2, 3, 4, 50
NONE = float("-inf")
Batch = tuple[tuple[Tensor, Tensor, Tensor], PackedRows]


def batch(seed: int, first_document: int = 0) -> Batch:
    """Rows of several pieces each; few different scores, so that many are equal, and some without an answer."""
    dice, pieces = random.Random(seed), []
    offsets = dice.sample(range(0, 100_000, 100), 100)
    for row in range(ROWS):
        at = dice.randint(0, 3)
        while at < LENGTH - 4:
            stop = min(LENGTH, at + dice.randint(2, 30))
            pieces.append(Piece(row, at, stop, first_document + dice.randint(0, 3), offsets[len(pieces)]))
            at = stop + dice.randint(0, 2)
    shape = (QUESTIONS, HEADS, len(pieces))
    score, column, key = (torch.zeros(shape), torch.zeros(shape).long(), torch.zeros(shape).long())
    for place in torch.cartesian_prod(*map(torch.arange, shape)).tolist():
        piece = pieces[place[2]]
        score[tuple(place)] = dice.choice((NONE, 0.25, 0.5, 0.75))
        column[tuple(place)] = dice.randrange(piece.start, piece.stop)
        key[tuple(place)] = dice.randrange(piece.start, piece.stop)
    ids = torch.randint(0, 1000, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    return (score, column, key), PackedRows(ids, tuple(pieces))


def by_hand(made: list[Batch], question: int, head: int) -> list[Example]:
    found = []
    for (scores, columns, keys), rows in made:
        for number, piece in enumerate(rows.pieces):
            score, column, key = (float(part[question, head, number]) for part in (scores, columns, keys))
            if score == NONE:
                continue
            window = range(int(column) - BEFORE, int(column) + AFTER + 1)
            tokens = [int(rows.ids[piece.row, at]) if piece.start <= at < piece.stop else NO_TOKEN for at in window]
            moved = piece.offset - piece.start
            found.append(Example(score, piece.document, int(column) + moved, int(key) + moved, tokens))
    return sorted(found, key=lambda one: (-one.score, one.document, one.position))


@pytest.mark.parametrize("slots", [1, 4, 100])
@pytest.mark.parametrize("seed", range(4))
def test_the_top_examples_of_a_batch_are_the_first_of_all_in_order(seed: int, slots: int) -> None:
    made = batch(seed)
    best = top_examples(*made, slots)
    for question in range(QUESTIONS):
        for head in range(HEADS):
            assert examples_of(best, question, head) == by_hand([made], question, head)[:slots]


def test_batches_merged_in_any_order_give_the_same_examples() -> None:
    """Many scores are equal: the position decides between them, not the order of merging."""
    parts = [batch(seed, 10 * seed) for seed in range(3)]
    for order in permutations(range(3)):
        best = TopExamples.empty(QUESTIONS, HEADS, 5)
        for number in order:
            best = best.merge(top_examples(*parts[number], 5))
        for question in range(QUESTIONS):
            for head in range(HEADS):
                assert examples_of(best, question, head) == by_hand(parts, question, head)[:5]


def test_a_window_ends_where_its_piece_does() -> None:
    ids = torch.arange(100)[None]
    tops = tuple(torch.tensor(value)[None, None, None] for value in (0.5, 40, 39))
    rows = PackedRows(ids, (Piece(0, 35, 44, 7, 1000),))
    (one,) = examples_of(top_examples(tops, rows, 1), 0, 0)  # type: ignore[arg-type]
    assert (one.document, one.position, one.key) == (7, 1005, 1004)
    assert len(one.tokens) == WINDOW
    assert [token for token in one.tokens if token != NO_TOKEN] == list(range(35, 44))
    assert one.tokens[BEFORE] == 40, "the query token is at its place in the window"


def test_examples_are_restored_from_their_arrays() -> None:
    best = top_examples(*batch(2), 4)
    again = TopExamples.from_arrays(best.arrays())
    for name, part in best.arrays().items():
        assert torch.equal(again.arrays()[name], part)
        assert part.is_contiguous()
