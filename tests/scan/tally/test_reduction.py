"""Sums of a batch against the same sums in plain loops, and its examples against a sorted list."""

from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError

import pytest
import torch

from headscope.scan.corpus.packing import PackedRows, Piece
from headscope.scan.tally.examples import BEFORE, NO_TOKEN, WINDOW, TopExamples, top_examples
from headscope.scan.tally.reduction import (
    DISTANCE_BINS,
    ENTROPY_BINS,
    TRAITS,
    SiteSums,
    SiteValues,
    distance_edges,
    entropy_edges,
    entropy_width,
    reduce,
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


def test_edges_cover_all_possible_values() -> None:
    assert len(entropy_edges(512)) == ENTROPY_BINS + 1
    assert entropy_edges(512)[-1] == pytest.approx(math.log(512))
    assert distance_edges()[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert len(distance_edges()) == DISTANCE_BINS + 1


def test_values_beyond_the_edges_are_counted_in_the_last_bin() -> None:
    given = site_values()
    given.values[:, :, 0] = 1e4
    given.values[:, :, 1] = -1e12
    found = reduce(given, N_QUESTIONS, CONTEXT)
    counted = int(given.valid[..., 0].sum())
    assert found.entropy[:, -1].tolist() == [counted] * N_HEADS
    assert found.distance[:, -1].tolist() == [counted] * N_HEADS


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


def test_examples_come_in_decreasing_order_one_per_piece(reduced: SiteSums) -> None:
    found = best(reduced, slots=3).of(1, 0)
    assert [one.score for one in found] == sorted((float(s) for s in reduced.top_score[1, 0]), reverse=True)
    assert len({(one.document, one.position) for one in found}) == 3


def test_an_example_names_its_position_in_the_document(reduced: SiteSums) -> None:
    for one in best(reduced, slots=3).of(0, 1):
        piece = next(s for s in PIECES if s.document == one.document and s.offset <= one.position < s.offset + s.stop - s.start)  # fmt: skip  # noqa: E501
        column = one.position - piece.offset + piece.start
        assert one.tokens[BEFORE] == int(IDS[piece.row, column])


def test_a_window_never_shows_another_document(reduced: SiteSums) -> None:
    for one in best(reduced, slots=3).of(2, 0):
        shown = [token for token in one.tokens if token != NO_TOKEN]
        (piece,) = [s for s in PIECES if int(IDS[s.row, s.start]) <= shown[0] <= int(IDS[s.row, s.stop - 1])]
        inside = IDS[piece.row, piece.start : piece.stop].tolist()
        assert set(shown) <= set(inside)
        assert len(one.tokens) == WINDOW


def test_a_piece_without_an_answer_gives_no_example() -> None:
    given = site_values()
    given.valid[0, :7, len(TRAITS)] = False
    found = best(reduce(given, N_QUESTIONS, CONTEXT), slots=3)
    assert len(found.of(0, 0)) == 2
    assert all(one.document != 4 for one in found.of(0, 0))


def test_merging_keeps_the_best_of_both_in_any_order() -> None:
    parts = [best(reduce(site_values(seed), N_QUESTIONS, CONTEXT), slots=4) for seed in range(4)]
    forward = backward = TopExamples.empty(N_QUESTIONS, N_HEADS, 4)
    for part in parts:
        forward = forward.merge(part)
    for part in parts[::-1]:
        backward = backward.merge(part)
    for question in range(N_QUESTIONS):
        for head in range(N_HEADS):
            assert forward.of(question, head) == backward.of(question, head)
            every = sorted((one.score for part in parts for one in part.of(question, head)), reverse=True)
            assert [one.score for one in forward.of(question, head)] == every[:4]


def test_merging_with_no_examples_changes_nothing(reduced: SiteSums) -> None:
    some = best(reduced, slots=3)
    none = TopExamples.empty(N_QUESTIONS, N_HEADS, 3)
    assert none.of(0, 0) == []
    assert none.merge(some).of(1, 1) == some.merge(none).of(1, 1) == some.of(1, 1)


def test_examples_are_restored_from_arrays(reduced: SiteSums) -> None:
    some = best(reduced, slots=3)
    assert TopExamples.from_arrays(some.arrays()).of(2, 1) == some.of(2, 1)


def test_the_examples_of_one_site_are_merged_into_its_heads(reduced: SiteSums) -> None:
    whole, some = TopExamples.empty(N_QUESTIONS, 5, 3), best(reduced, slots=3)
    whole.merge_heads(slice(2, 4), some)
    assert whole.of(0, 2) == some.of(0, 0)
    assert whole.of(0, 0) == whole.of(0, 4) == []
    assert whole.of(1, 3) == some.of(1, 1)


@pytest.mark.parametrize(
    ("distance", "bin_number"),
    [
        (0.0, 0),
        (0.49, 0),
        (0.5, 1),
        (0.99, 1),
        (1.0, 2),
        (1.99, 2),
        (2.0, 3),
        (-2.0, 3),
        (2.0**20, 22),
        (2.0**21, 23),
        (2.0**22, 23),
    ],
)
def test_distances_fall_into_bins_by_powers_of_two(distance: float, bin_number: int) -> None:
    given = site_values()
    given.values[:, :, TRAITS.index("distance")] = distance
    found = reduce(given, N_QUESTIONS, CONTEXT).distance
    assert found[:, bin_number].tolist() == [int(given.valid[..., 0].sum())] * N_HEADS


@pytest.mark.parametrize(
    ("share", "bin_number"), [(0.0, 0), (0.999 / 32, 0), (1.001 / 32, 1), (31.5 / 32, 31), (1.0, 31)]
)
def test_entropies_fall_into_32_equal_bins(share: float, bin_number: int) -> None:
    given = site_values()
    given.values[:, :, 0] = share * math.log(CONTEXT)
    found = reduce(given, N_QUESTIONS, CONTEXT).entropy
    assert found.shape == (N_HEADS, 32)
    assert found[:, bin_number].tolist() == [int(given.valid[..., 0].sum())] * N_HEADS


def test_the_width_of_a_bin_of_entropies() -> None:
    assert entropy_width(64) == pytest.approx(math.log(64) / 32)
    assert entropy_width(2) == entropy_width(1) == pytest.approx(math.log(2) / 32), "of one token, the entropy is 0"


def test_what_is_summed_is_not_changed(reduced: SiteSums) -> None:
    with pytest.raises(FrozenInstanceError):
        reduced.count = reduced.entropy  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        site_values().pieces = ()  # type: ignore[misc]
