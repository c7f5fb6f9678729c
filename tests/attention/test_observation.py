"""What comes back from a look: totals that merge, words for what was not asked, and rows without a gradient."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headscope.attention.engine import observe
from headscope.attention.masks import causal
from headscope.attention.observation import Observation, Totals
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import HeadscopeError

CAUSAL = Scores(mask=causal())


def look(batch: int = 2) -> Observation:
    x = torch.randn(batch, 3, 11, 4, generator=torch.Generator().manual_seed(batch))
    place = torch.arange(11)
    return observe(x, x, x, scores=CAUSAL, questions={"previous": Question(place - 1, place)})


def test_totals_are_sums_squares_and_maxima_of_the_chosen_rows() -> None:
    seen = look()
    keep = torch.zeros(2, 11, dtype=torch.bool)
    keep[0, 2:5] = keep[1, 7] = True
    totals = seen.totals(keep)
    chosen = seen.entropy.double().transpose(0, 1)[:, keep]
    assert totals.count == 4
    assert_close(totals.sums["entropy"], chosen.sum(1))
    assert_close(totals.squares["entropy"], chosen.square().sum(1))
    assert_close(totals.maxima["entropy"], chosen.amax(1))
    assert totals.sums.keys() == {"entropy", "distance", "spread", "strongest", "mass.previous"}


def test_totals_of_parts_merge_to_those_of_the_whole() -> None:
    seen = look()
    first = torch.zeros(2, 11, dtype=torch.bool)
    first[:, :6] = True
    merged, whole = seen.totals(first) + seen.totals(~first), seen.totals()
    assert merged.count == whole.count == 22
    for name in whole.sums:
        assert_close(merged.sums[name], whole.sums[name])
        assert_close(merged.squares[name], whole.squares[name])
        assert_close(merged.maxima[name], whole.maxima[name])


def test_reduce_gives_the_totals_alone() -> None:
    x = torch.randn(1, 2, 6, 4)
    totals = observe(x, x, x, scores=CAUSAL, reduce=torch.ones(1, 6, dtype=torch.bool))
    assert isinstance(totals, Totals)
    assert_close(totals.sums["entropy"], observe(x, x, x, scores=CAUSAL).entropy.double().sum((0, 2)))


def test_a_row_mask_fits_the_rows() -> None:
    with pytest.raises(HeadscopeError, match=r"the row mask has shape \(1, 11\); these rows are \(2, 11\)"):
        look().totals(torch.ones(1, 11, dtype=torch.bool))


def test_what_was_not_asked_says_how_to_ask() -> None:
    x = torch.randn(1, 1, 3, 4)
    seen = observe(x, x, x, statistics={"entropy"})
    assert seen.entropy.shape == (1, 1, 3)
    for name in ("distance", "strongest"):
        with pytest.raises(HeadscopeError, match=f"{name} was not asked for; call observe.*statistics={{'{name}', …}}"):
            getattr(seen, name)


def test_a_sink_is_an_outcome_of_its_own() -> None:
    x = torch.zeros(1, 2, 3, 4)
    seen = observe(x, x, x, scores=Scores(mask=causal(), sinks=torch.tensor([0.0, 1.0])))
    assert_close(seen.sink[0, 0], torch.tensor([1 / 2, 1 / 3, 1 / 4]))
    assert_close(seen.entropy[0, 0], torch.tensor([2.0, 3.0, 4.0]).log())
    assert look().sink.eq(0).all()


def test_it_says_in_one_line_what_it_is() -> None:
    assert repr(look()) == "Observation(2×3 heads, 11 queries, backend='blockwise', questions: previous)"
