"""Sums of a batch against the same sums in plain loops, and the best rows against a sorted list."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from headscope.scan.tally.examples import BEFORE, NO_TOKEN, WINDOW, Best, Span, best_of
from headscope.scan.tally.reduction import (
    DISTANCE_BINS,
    ENTROPY_BINS,
    TRAITS,
    Reduced,
    Seen,
    distance_edges,
    entropy_edges,
    reduce,
)

N_QUESTIONS, N_HEADS, CONTEXT = 3, 2, 64
SPANS = [Span(0, 0, 7, 4, 0), Span(0, 7, 12, 5, 0), Span(1, 0, 9, 5, 5)]


def seen(seed: int = 0) -> Seen:
    generator = torch.Generator().manual_seed(seed)
    quantities = len(TRAITS) + N_QUESTIONS
    values = torch.rand(2, 12, quantities, N_HEADS, generator=generator)
    values[:, :, 0] *= math.log(CONTEXT)
    values[:, :, 1] *= 40
    valid = torch.rand(2, 12, quantities, generator=generator) < 0.8
    valid[:, :, : len(TRAITS)] = valid[:, :, :1]
    valid[1, 9:] = False
    strongest = torch.randint(12, (2, 12, N_HEADS), generator=generator)
    return Seen(values, valid, strongest, SPANS)


@pytest.fixture
def reduced() -> Reduced:
    return reduce(seen(), N_QUESTIONS, CONTEXT)


def test_sums_of_a_piece_are_those_of_its_own_rows(reduced: Reduced) -> None:
    given = seen()
    for piece, span in enumerate(SPANS):
        for quantity in range(given.values.shape[2]):
            rows = [at for at in range(span.start, span.stop) if given.valid[span.row, at, quantity]]
            assert int(reduced.rows[piece, quantity]) == len(rows)
            for head in range(N_HEADS):
                total = sum(float(given.values[span.row, at, quantity, head]) for at in rows)
                assert float(reduced.sums[piece, quantity, head]) == pytest.approx(total, abs=1e-6)


def test_squares_and_extremes_are_over_every_row_that_counts(reduced: Reduced) -> None:
    given = seen()
    for quantity in range(given.values.shape[2]):
        for head in range(N_HEADS):
            values = given.values[..., quantity, head][given.valid[..., quantity]].double()
            assert float(reduced.squares[quantity, head]) == pytest.approx(float((values**2).sum()))
            assert float(reduced.largest[quantity, head]) == pytest.approx(float(values.max()))
            assert float(reduced.smallest[quantity, head]) == pytest.approx(float(values.min()))


def test_every_row_falls_into_the_bin_between_its_edges(reduced: Reduced) -> None:
    given = seen()
    for name, edges, histogram in (
        ("entropy", entropy_edges(CONTEXT), reduced.entropy),
        ("distance", distance_edges(), reduced.distance),
    ):
        column = TRAITS.index(name)
        for head in range(N_HEADS):
            values = given.values[..., column, head][given.valid[..., 0]].tolist()
            counts = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(edges)]
            assert histogram[head].tolist()[: len(counts)] == counts


def test_edges_cover_what_can_happen() -> None:
    assert len(entropy_edges(512)) == ENTROPY_BINS + 1
    assert entropy_edges(512)[-1] == pytest.approx(math.log(512))
    assert distance_edges()[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert len(distance_edges()) == DISTANCE_BINS + 1


def test_values_beyond_the_edges_are_counted_in_the_last_bin() -> None:
    given = seen()
    given.values[:, :, 0] = 1e4
    given.values[:, :, 1] = -1e12
    found = reduce(given, N_QUESTIONS, CONTEXT)
    counted = int(given.valid[..., 0].sum())
    assert found.entropy[:, -1].tolist() == [counted] * N_HEADS
    assert found.distance[:, -1].tolist() == [counted] * N_HEADS


def test_the_best_row_of_a_piece_is_its_largest_answer(reduced: Reduced) -> None:
    given = seen()
    for question in range(N_QUESTIONS):
        for head in range(N_HEADS):
            for piece, span in enumerate(SPANS):
                quantity = len(TRAITS) + question
                answers = {
                    at: float(given.values[span.row, at, quantity, head])
                    for at in range(span.start, span.stop)
                    if given.valid[span.row, at, quantity]
                }
                best = max(answers, key=answers.__getitem__)
                assert int(reduced.top_column[question, head, piece]) == best
                assert float(reduced.top_score[question, head, piece]) == pytest.approx(answers[best])
                looks_at = int(given.strongest[span.row, best, head])
                assert int(reduced.top_looks_at[question, head, piece]) == looks_at


IDS = torch.arange(100, 124).view(2, 12)


def best(reduced: Reduced, slots: int = 2) -> Best:
    return best_of((reduced.top_score, reduced.top_column, reduced.top_looks_at), IDS, SPANS, slots)


def test_examples_come_in_falling_order_one_from_each_piece(reduced: Reduced) -> None:
    found = best(reduced, slots=3).at(1, 0)
    assert [one.score for one in found] == sorted((float(s) for s in reduced.top_score[1, 0]), reverse=True)
    assert len({(one.document, one.position) for one in found}) == 3


def test_an_example_says_where_in_its_document_it_stands(reduced: Reduced) -> None:
    for one in best(reduced, slots=3).at(0, 1):
        span = next(s for s in SPANS if s.document == one.document and s.offset <= one.position < s.offset + s.stop - s.start)  # fmt: skip  # noqa: E501
        column = one.position - span.offset + span.start
        assert one.tokens[BEFORE] == int(IDS[span.row, column])


def test_a_window_never_shows_another_document(reduced: Reduced) -> None:
    for one in best(reduced, slots=3).at(2, 0):
        shown = [token for token in one.tokens if token != NO_TOKEN]
        (span,) = [s for s in SPANS if int(IDS[s.row, s.start]) <= shown[0] <= int(IDS[s.row, s.stop - 1])]
        inside = IDS[span.row, span.start : span.stop].tolist()
        assert set(shown) <= set(inside)
        assert len(one.tokens) == WINDOW


def test_a_piece_without_an_answer_gives_no_example() -> None:
    given = seen()
    given.valid[0, :7, len(TRAITS)] = False
    found = best(reduce(given, N_QUESTIONS, CONTEXT), slots=3)
    assert len(found.at(0, 0)) == 2
    assert all(one.document != 4 for one in found.at(0, 0))


def test_merging_keeps_the_best_of_both_in_any_order() -> None:
    parts = [best(reduce(seen(seed), N_QUESTIONS, CONTEXT), slots=4) for seed in range(4)]
    forward = backward = Best.none(N_QUESTIONS, N_HEADS, 4)
    for part in parts:
        forward = forward.merge(part)
    for part in parts[::-1]:
        backward = backward.merge(part)
    for question in range(N_QUESTIONS):
        for head in range(N_HEADS):
            assert forward.at(question, head) == backward.at(question, head)
            every = sorted((one.score for part in parts for one in part.at(question, head)), reverse=True)
            assert [one.score for one in forward.at(question, head)] == every[:4]


def test_nothing_merged_with_something_is_that_thing(reduced: Reduced) -> None:
    some = best(reduced, slots=3)
    none = Best.none(N_QUESTIONS, N_HEADS, 3)
    assert none.at(0, 0) == []
    assert none.merge(some).at(1, 1) == some.merge(none).at(1, 1) == some.at(1, 1)


def test_examples_survive_being_saved(reduced: Reduced) -> None:
    some = best(reduced, slots=3)
    assert Best.from_arrays(some.arrays()).at(2, 1) == some.at(2, 1)


def test_one_site_of_a_model_is_written_into_its_own_heads(reduced: Reduced) -> None:
    whole, some = Best.none(N_QUESTIONS, 5, 3), best(reduced, slots=3)
    whole.set(slice(2, 4), some)
    assert whole.at(0, 2) == some.at(0, 0)
    assert whole.at(0, 0) == whole.at(0, 4) == []
    assert whole.only(slice(2, 4)).at(1, 1) == some.at(1, 1)
