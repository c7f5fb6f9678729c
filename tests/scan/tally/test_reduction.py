"""Sums of a batch against the same sums in plain loops, and its examples against a sorted list."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from headscope.scan.corpus.packing import PackedRows, Piece
from headscope.scan.tally import (
    TRAITS,
    SiteSums,
    SiteValues,
    TopExamples,
    distance_edges,
    entropy_edges,
    reduce,
    top_examples,
)

N_QUESTIONS, N_HEADS, CONTEXT = 3, 2, 64
PIECES = (Piece(0, 0, 7, 4, 0), Piece(0, 7, 12, 5, 0), Piece(1, 0, 9, 5, 5))


def site_values(seed: int = 0) -> SiteValues:
    generator = torch.Generator().manual_seed(seed)
    quantities = len(TRAITS) + N_QUESTIONS
    values = torch.rand(2, 12, quantities, N_HEADS, generator=generator)
    values[:, :, 0] *= math.log(CONTEXT)
    values[:, :, 1] *= 40
    valid = torch.rand(2, 12, quantities, generator=generator) < 0.8
    valid[:, :, : len(TRAITS)] = valid[:, :, :1]
    valid[1, 9:] = False
    strongest = torch.randint(12, (2, 12, N_HEADS), generator=generator)
    return SiteValues(values, valid, strongest, PIECES)


@pytest.fixture
def reduced() -> SiteSums:
    return reduce(site_values(), N_QUESTIONS, CONTEXT)


def test_sums_of_a_piece_are_over_its_own_queries(reduced: SiteSums) -> None:
    given = site_values()
    for number, piece in enumerate(PIECES):
        for quantity in range(given.values.shape[2]):
            rows = [at for at in range(piece.start, piece.stop) if given.valid[piece.row, at, quantity]]
            assert int(reduced.count[number, quantity]) == len(rows)
            for head in range(N_HEADS):
                total = sum(float(given.values[piece.row, at, quantity, head]) for at in rows)
                assert float(reduced.sums[number, quantity, head]) == pytest.approx(total, abs=1e-6)


def test_squares_and_extremes_are_over_every_valid_query(reduced: SiteSums) -> None:
    given = site_values()
    for quantity in range(given.values.shape[2]):
        for head in range(N_HEADS):
            values = given.values[..., quantity, head][given.valid[..., quantity]].double()
            assert float(reduced.squares[quantity, head]) == pytest.approx(float((values**2).sum()))
            assert float(reduced.largest[quantity, head]) == pytest.approx(float(values.max()))
            assert float(reduced.smallest[quantity, head]) == pytest.approx(float(values.min()))


def test_every_query_is_counted_in_the_bin_between_its_edges(reduced: SiteSums) -> None:
    given = site_values()
    for name, edges, histogram in (
        ("entropy", entropy_edges(CONTEXT), reduced.entropy),
        ("distance", distance_edges(), reduced.distance),
    ):
        column = TRAITS.index(name)
        for head in range(N_HEADS):
            values = given.values[..., column, head][given.valid[..., 0]].tolist()
            counts = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(edges)]
            assert histogram[head].tolist()[: len(counts)] == counts


def test_the_best_query_of_a_piece_has_its_largest_mass(reduced: SiteSums) -> None:
    given = site_values()
    for question in range(N_QUESTIONS):
        for head in range(N_HEADS):
            for number, piece in enumerate(PIECES):
                quantity = len(TRAITS) + question
                answers = {
                    at: float(given.values[piece.row, at, quantity, head])
                    for at in range(piece.start, piece.stop)
                    if given.valid[piece.row, at, quantity]
                }
                best = max(answers, key=answers.__getitem__)
                assert int(reduced.top_column[question, head, number]) == best
                assert float(reduced.top_score[question, head, number]) == pytest.approx(answers[best])
                key = int(given.strongest[piece.row, best, head])
                assert int(reduced.top_key[question, head, number]) == key


IDS = torch.arange(100, 124).view(2, 12)


def best(reduced: SiteSums, slots: int = 2) -> TopExamples:
    return top_examples((reduced.top_score, reduced.top_column, reduced.top_key), PackedRows(IDS, PIECES), slots)
