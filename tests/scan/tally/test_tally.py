"""A tally's sums do not depend on how rows were split; its intervals are a bootstrap's; its bytes are stable."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from tests.scan.tally.examples import examples_of

from headscope.errors import InputError
from headscope.heads.bootstrap import poisson_weights
from headscope.scan.corpus.packing import PackedRows, Piece
from headscope.scan.tally import (
    BEFORE,
    TRAITS,
    WINDOW,
    SiteValues,
    Tally,
    TallyLayout,
    distance_edges,
    entropy_edges,
    reduce,
)

LAYOUT = TallyLayout(
    sites=(("0", 2), ("1", 3)), questions=("previous",), nulls=("previous (shuffled)",), context=16, examples=2
)


class Batch(NamedTuple):
    """The values of a site for some rows."""

    site: SiteValues
    rows: PackedRows

    def add_to(self, tally: Tally, site: str) -> None:
        sums = reduce(self.site, len(tally.layout.questions), tally.layout.context)
        tally.add(site, sums, self.rows, [piece.document for piece in self.rows.pieces])


def batch_of(n_heads: int, rows: int = 4, first_document: int = 0) -> Batch:
    """Rows of 16 tokens, two pieces in each; some rows do not count."""
    values = torch.rand(rows, 16, len(LAYOUT.quantities), n_heads)
    pieces = tuple(
        Piece(row, start, start + 8, first_document + 2 * row + start // 8, 0)
        for row in range(rows)
        for start in (0, 8)
    )
    strongest = torch.arange(16)[None, :, None].expand(rows, 16, n_heads).contiguous()
    valid = torch.rand(rows, 16, len(LAYOUT.quantities)) < 0.7
    valid[..., : len(TRAITS)] = valid[..., :1]
    ids = torch.arange(rows * 16).view(rows, 16)
    return Batch(SiteValues(values, valid, strongest, pieces), PackedRows(ids, pieces))


def test_counts_means_variances_and_extremes_are_over_the_valid_values() -> None:
    batch = batch_of(3)
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "1")
    for number in range(len(LAYOUT.quantities)):
        kept = batch.site.values[:, :, number][batch.site.valid[:, :, number]].double()
        assert int(tally.head_counts()[number, 2]) == len(kept)
        torch.testing.assert_close(tally.means()[number, 2:], kept.mean(0))
        torch.testing.assert_close(tally.variances()[number, 2:], kept.var(0, correction=0))
        torch.testing.assert_close(tally.largest[number, 2:], kept.amax(0))
        torch.testing.assert_close(tally.smallest[number, 2:], kept.amin(0))
    assert tally.means()[:, :2].isnan().all(), "nothing was added for site 0"


def test_two_tallies_merged_are_one_tally_of_both() -> None:
    one, two = batch_of(2), batch_of(2, rows=3, first_document=100)
    apart = [Tally.zero(LAYOUT), Tally.zero(LAYOUT)]
    together = Tally.zero(LAYOUT)
    for tally, batch in zip(apart, (one, two), strict=True):
        batch.add_to(tally, "0")
        batch.add_to(together, "0")
    merged = apart[0].merge(apart[1])
    for name in ("sums", "squares", "drawn_sums", "drawn_count"):
        torch.testing.assert_close(getattr(merged, name), getattr(together, name), rtol=1e-13, atol=1e-13)
    for name in ("count", "entropy", "distance", "largest", "smallest"):
        assert torch.equal(getattr(merged, name), getattr(together, name))
    assert all(examples_of(merged.examples, 0, head) == examples_of(together.examples, 0, head) for head in (0, 1))
    backwards = apart[1].merge(apart[0])
    assert examples_of(backwards.examples, 0, 0) == examples_of(merged.examples, 0, 0), (
        "the order of merging does not choose the examples"
    )


def test_histograms_count_every_valid_query_in_the_bin_of_its_value() -> None:
    batch = batch_of(2)
    distance = TRAITS.index("distance")
    batch.site.values[:, :, distance] *= 10
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "0")
    counted = batch.site.valid[..., 0]
    for name, edges, kept in (
        ("entropy", entropy_edges(16), tally.entropy),
        ("distance", distance_edges(), tally.distance),
    ):
        values = batch.site.values[:, :, TRAITS.index(name), 1][counted]
        expected = [
            int(((values >= low) & (values < high)).sum())
            for low, high in zip(edges, [*edges[1:], math.inf], strict=True)
        ]
        assert kept[1].tolist() == expected[: kept.shape[1]]


def test_the_top_examples_are_the_highest_valid_masses_of_different_pieces_with_their_tokens() -> None:
    batch = batch_of(2)
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "0")
    scores = batch.site.values[:, :, len(TRAITS), 1].masked_fill(~batch.site.valid[:, :, len(TRAITS)], -1.0)
    best = sorted(
        ((float(scores[s.row, s.start : s.stop].max()), s) for s in batch.rows.pieces), key=lambda pair: -pair[0]
    )
    found = examples_of(tally.examples, 0, 1)
    assert [one.score for one in found] == [score for score, _ in best[:2]]
    first, piece = found[0], best[0][1]
    column = piece.start + first.position
    assert first.document == piece.document
    assert len(first.tokens) == WINDOW
    assert first.tokens[BEFORE] == int(batch.rows.ids[piece.row, column])
    assert first.tokens[BEFORE - first.position - 1] == -1, "the window ends where the piece begins"
    assert first.key == first.position, "this head attends to itself; keys are positions in the document"


def test_the_interval_has_the_width_that_the_variance_between_documents_implies() -> None:
    layout = TallyLayout(sites=(("0", 1),), questions=(), context=2, replicates=400)
    values = torch.randn(900, 1, len(TRAITS), 1)
    pieces = tuple(Piece(row, 0, 1, row, 0) for row in range(900))
    valid = torch.ones(900, 1, len(TRAITS), dtype=torch.bool)
    tally = Tally.zero(layout)
    numbers = SiteValues(values, valid, torch.zeros(900, 1, 1).long(), pieces)
    Batch(numbers, PackedRows(torch.zeros(900, 1).long(), pieces)).add_to(tally, "0")
    low, high = tally.intervals()
    assert float(high[0, 0] - low[0, 0]) == pytest.approx(2 * 1.96 / 30, rel=0.2)
    assert float(low[0, 0]) < float(tally.means()[0, 0]) < float(high[0, 0])


def test_pieces_of_one_document_are_drawn_together() -> None:
    weights = poisson_weights([5, 7, 5], replicates=50, seed=3)
    assert torch.equal(weights[:, 0], weights[:, 2])
    assert not torch.equal(weights[:, 0], weights[:, 1])
    many = poisson_weights(list(range(2000)), replicates=100, seed=0)
    assert float(many.mean()) == pytest.approx(1, abs=0.02)
    assert float(many.var()) == pytest.approx(1, abs=0.03)
    assert not torch.equal(poisson_weights([5], 50, seed=4)[:, 0], weights[:, 0])


def test_tallies_of_different_scans_do_not_merge() -> None:
    other = TallyLayout(sites=(("0", 2),), questions=("previous",))
    with pytest.raises(InputError, match="count different things"):
        Tally.zero(LAYOUT).merge(Tally.zero(other))


def test_a_bootstrap_replicate_weighs_every_piece_of_a_document_equally() -> None:
    batch, tally = batch_of(2), Tally.zero(LAYOUT)
    batch.add_to(tally, "0")
    sums = reduce(batch.site, 1, 16)
    weights = poisson_weights([piece.document for piece in batch.rows.pieces], 200, 0)
    torch.testing.assert_close(tally.drawn_sums[:, :, :2], torch.einsum("rp,pqh->rqh", weights, sums.sums))
    torch.testing.assert_close(tally.drawn_count[:, :, 0], weights @ sums.count.double())
