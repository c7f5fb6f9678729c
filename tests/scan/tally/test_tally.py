"""A tally's sums are the sums, however it was cut; its intervals are a bootstrap's; its bytes are always the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from headscope.errors import InputError
from headscope.scan.tally.examples import BEFORE, WINDOW, Span
from headscope.scan.tally.poisson_bootstrap import poisson_weights
from headscope.scan.tally.reduction import TRAITS, Seen, distance_edges, entropy_edges, reduce
from headscope.scan.tally.tally import Layout, Source, Tally

LAYOUT = Layout(
    sites=(("0", 2), ("1", 3)), questions=("previous",), nulls=("previous (shuffled)",), context=16, examples=2
)


class Batch(NamedTuple):
    """Rows of numbers, and where they come from."""

    seen: Seen
    source: Source

    def add_to(self, tally: Tally, site: str) -> None:
        tally.add(site, reduce(self.seen, len(tally.layout.questions), tally.layout.context), self.source)


def seen(n_heads: int, rows: int = 4, first_document: int = 0) -> Batch:
    """Rows of 16 tokens, two pieces in each; some rows do not count."""
    values = torch.rand(rows, 16, len(LAYOUT.quantities), n_heads)
    spans = [
        Span(row, start, start + 8, first_document + 2 * row + start // 8, 0) for row in range(rows) for start in (0, 8)
    ]
    strongest = torch.arange(16)[None, :, None].expand(rows, 16, n_heads).contiguous()
    valid = torch.rand(rows, 16, len(LAYOUT.quantities)) < 0.7
    valid[..., : len(TRAITS)] = valid[..., :1]
    ids = torch.arange(rows * 16).view(rows, 16)
    return Batch(Seen(values, valid, strongest, spans), Source(ids, spans, [span.document for span in spans]))


def test_counts_means_variances_and_extremes_are_those_of_the_valid_values() -> None:
    batch = seen(3)
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "1")
    for number in range(len(LAYOUT.quantities)):
        kept = batch.seen.values[:, :, number][batch.seen.valid[:, :, number]].double()
        assert int(tally.head_counts()[number, 2]) == len(kept)
        torch.testing.assert_close(tally.means()[number, 2:], kept.mean(0))
        torch.testing.assert_close(tally.variances()[number, 2:], kept.var(0, correction=0))
        torch.testing.assert_close(tally.largest[number, 2:], kept.amax(0))
        torch.testing.assert_close(tally.smallest[number, 2:], kept.amin(0))
    assert tally.means()[:, :2].isnan().all(), "site 0 was not seen"


def test_two_tallies_merged_are_one_tally_of_both() -> None:
    one, two = seen(2), seen(2, rows=3, first_document=100)
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
    assert all(merged.best.at(0, head) == together.best.at(0, head) for head in (0, 1))
    backwards = apart[1].merge(apart[0])
    assert backwards.best.at(0, 0) == merged.best.at(0, 0), "the order of merging does not choose the examples"


def test_a_tally_comes_back_from_its_bytes_and_the_same_tally_gives_the_same_bytes(tmp_path: Path) -> None:
    tally = Tally.zero(LAYOUT)
    seen(2).add_to(tally, "0")
    data = tally.to_bytes()
    assert data == Tally.from_bytes(data).to_bytes()
    (tmp_path / "tally").write_bytes(data)
    assert Tally.load(str(tmp_path / "tally")).to_bytes() == data
    assert Tally.load(str(tmp_path / "tally")).layout == LAYOUT


def test_histograms_count_every_valid_row_in_the_bin_of_its_value() -> None:
    batch = seen(2)
    distance = TRAITS.index("distance")
    batch.seen.values[:, :, distance] *= 10
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "0")
    counted = batch.seen.valid[..., 0]
    for name, edges, kept in (
        ("entropy", entropy_edges(16), tally.entropy),
        ("distance", distance_edges(), tally.distance),
    ):
        values = batch.seen.values[:, :, TRAITS.index(name), 1][counted]
        expected = [
            int(((values >= low) & (values < high)).sum())
            for low, high in zip(edges, [*edges[1:], math.inf], strict=True)
        ]
        assert kept[1].tolist() == expected[: kept.shape[1]]


def test_the_best_examples_are_the_highest_valid_answers_of_different_pieces_with_their_tokens() -> None:
    batch = seen(2)
    tally = Tally.zero(LAYOUT)
    batch.add_to(tally, "0")
    scores = batch.seen.values[:, :, len(TRAITS), 1].masked_fill(~batch.seen.valid[:, :, len(TRAITS)], -1.0)
    best = sorted(
        ((float(scores[s.row, s.start : s.stop].max()), s) for s in batch.source.spans), key=lambda pair: -pair[0]
    )
    found = tally.best.at(0, 1)
    assert [one.score for one in found] == [score for score, _ in best[:2]]
    first, span = found[0], best[0][1]
    column = span.start + first.position
    assert first.document == span.document
    assert len(first.tokens) == WINDOW
    assert first.tokens[BEFORE] == int(batch.source.ids[span.row, column])
    assert first.tokens[BEFORE - first.position - 1] == -1, "the window ends where the piece begins"
    assert first.key == first.position, "this head looks at itself, in tokens of the document"


def test_the_interval_is_as_wide_as_the_spread_between_documents_says() -> None:
    layout = Layout(sites=(("0", 1),), questions=(), context=2, replicates=400)
    values = torch.randn(900, 1, len(TRAITS), 1)
    spans = [Span(row, 0, 1, row, 0) for row in range(900)]
    valid = torch.ones(900, 1, len(TRAITS), dtype=torch.bool)
    tally = Tally.zero(layout)
    numbers = Seen(values, valid, torch.zeros(900, 1, 1).long(), spans)
    Batch(numbers, Source(torch.zeros(900, 1).long(), spans, list(range(900)))).add_to(tally, "0")
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
    other = Layout(sites=(("0", 2),), questions=("previous",))
    with pytest.raises(InputError, match="count different things"):
        Tally.zero(LAYOUT).merge(Tally.zero(other))
