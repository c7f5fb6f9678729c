"""An Observation: totals that merge, and errors for statistics that were not requested."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from headscope.attention.engine import observe
from headscope.attention.masks import causal, dense
from headscope.attention.observation import ALL_STATISTICS, Observation, Statistic
from headscope.attention.observer import Call, plain
from headscope.attention.questions import Question
from headscope.attention.scores import Scores
from headscope.errors import HeadscopeError

CAUSAL = Scores(mask=causal())


def observed(batch: int = 2) -> Observation:
    x = torch.randn(batch, 3, 11, 4, generator=torch.Generator().manual_seed(batch))
    position = torch.arange(11)
    return observe(x, x, x, scores=CAUSAL, questions={"previous": Question(position - 1, position)})


def test_a_statistic_that_was_not_requested_says_how_to_request_it() -> None:
    x = torch.randn(1, 1, 3, 4)
    seen = observe(x, x, x, statistics={"entropy"})
    assert seen.entropy.shape == (1, 1, 3)
    for name in ("distance", "strongest"):
        with pytest.raises(HeadscopeError, match=f"{name} was not requested; call observe.*statistics={{'{name}', …}}"):
            getattr(seen, name)


def test_a_sink_is_a_separate_outcome() -> None:
    x = torch.zeros(1, 2, 3, 4)
    seen = observe(x, x, x, scores=Scores(mask=causal(), sinks=torch.tensor([0.0, 1.0])))
    assert_close(seen.sink[0, 0], torch.tensor([1 / 2, 1 / 3, 1 / 4]))
    assert_close(seen.entropy[0, 0], torch.tensor([2.0, 3.0, 4.0]).log())
    assert observed().sink.eq(0).all()


@pytest.mark.parametrize("backend", ["blockwise", "dense"])
def test_a_sink_of_minus_infinity_is_not_a_sink(backend: str) -> None:
    """Row 2 attends to no key: with no sink either, nothing is left to divide by."""
    x = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = causal() & dense(torch.arange(5)[:, None].ne(2).expand(5, 5))
    with_sinks = Scores(mask=mask, sinks=torch.full((2,), -torch.inf))
    seen, wanted = (observe(x, x, x, scores=scores, backend=backend) for scores in (with_sinks, Scores(mask=mask)))
    for name in ("output", "entropy", "logsumexp", "sink", "distance", "strongest"):
        assert_close(getattr(seen, name), getattr(wanted, name))
    assert_close(plain(Call(torch.nn.Identity(), x, x, x, with_sinks)), wanted.output)


@pytest.mark.parametrize("backend", ["blockwise", "dense"])
@pytest.mark.parametrize("asked", [(), ("entropy",), ("distance",), ("strongest",), ("distance", "entropy")], ids=str)
def test_requested_statistics_are_computed_and_no_others(backend: str, asked: tuple[Statistic, ...]) -> None:
    x = torch.randn(1, 2, 5, 4)
    every, some = (observe(x, x, x, statistics=names, backend=backend) for names in (ALL_STATISTICS, frozenset(asked)))
    for name in ALL_STATISTICS:
        if name in asked:
            assert_close(getattr(some.rows, name), getattr(every.rows, name))
        else:
            assert getattr(some.rows, name) is None
    assert_close(some.output, every.output)
