"""Masses equal the definition for any labels, with a query's own key or without, and for shared KV heads."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from headscope.attention import reference
from headscope.attention.engine import observe
from headscope.attention.masks import causal, full
from headscope.attention.observation import Observation
from headscope.attention.questions import Question
from headscope.attention.scores import Scores

N_HEADS = 4


class Problem(NamedTuple):
    """A problem without its questions, and one label for each key and each query of each item."""

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Scores
    query: Tensor
    key: Tensor

    def see(self, questions: dict[str, Question], backend: str) -> Observation:
        return observe(self.q, self.k, self.v, scores=self.scores, questions=questions, backend=backend)

    def masses(self, questions: dict[str, Question], backend: str) -> dict[str, Tensor]:
        return dict(self.see(questions, backend).mass)

    def whole(self) -> Tensor:
        """The mass of all labels together: 1 minus the sink's weight, and 0 in fully masked rows."""
        return self.see({}, "dense").weights().sum(-1)


class Drawn(NamedTuple):
    """What hypothesis draws; the test makes tensors from it."""

    batch: int
    n_query: int
    more_keys: int
    groups: int
    n_labels: int
    one_label_vector_for_all: bool
    causal: bool
    sinks: bool
    seed: int

    def problem(self) -> Problem:
        generator = torch.Generator().manual_seed(self.seed)
        n_key, items = self.n_query + self.more_keys, 1 if self.one_label_vector_for_all else self.batch
        q, k, v = (
            torch.randn(self.batch, heads, length, 3, generator=generator, dtype=torch.float64)
            for heads, length in ((N_HEADS, self.n_query), (self.groups, n_key), (self.groups, n_key))
        )
        scores = Scores(
            mask=causal() if self.causal else full(),
            sinks=torch.randn(N_HEADS, generator=generator) if self.sinks else None,
        )
        query, key = (
            torch.randint(0, self.n_labels, (items, length), generator=generator) for length in (self.n_query, n_key)
        )
        return Problem(q, k, v, scores, query, key)


problems = st.builds(
    Drawn,
    batch=st.integers(1, 2),
    n_query=st.integers(1, 12),
    more_keys=st.integers(0, 70),
    groups=st.sampled_from([1, 2, 4]),
    n_labels=st.sampled_from([1, 3, 20, 40]),
    one_label_vector_for_all=st.booleans(),
    causal=st.booleans(),
    sinks=st.booleans(),
    seed=st.integers(0, 999),
)
backends = pytest.mark.parametrize("backend", ["blockwise", "dense"])
CLOSE = {"atol": 1e-11, "rtol": 1e-11}


@backends
@settings(max_examples=25)
@given(drawn=problems)
def test_masses_equal_the_definition(backend: str, drawn: Drawn) -> None:
    problem = drawn.problem()
    asked = {str(alone): Question(problem.query, problem.key, alone) for alone in (False, True)}
    seen = problem.see(asked, backend)
    weights = seen.weights()
    for alone in (False, True):
        for item in range(len(problem.q)):
            query, key = (labels[item % len(labels)] for labels in (problem.query, problem.key))
            for head in range(N_HEADS):
                expected = reference.mass(weights[item, head], query, key, alone)
                assert_close(seen.mass[str(alone)][item, head], expected, **CLOSE)


@backends
@settings(max_examples=20)
@given(drawn=problems)
def test_exclude_self_leaves_out_the_querys_own_key_alone(backend: str, drawn: Drawn) -> None:
    problem = drawn.problem()
    offset = problem.k.shape[2] - problem.q.shape[2]
    position = torch.arange(problem.q.shape[2]) + offset
    asked = {
        "all": Question(problem.query, problem.key),
        "others": Question(problem.query, problem.key, exclude_self=True),
        "itself": Question(position, torch.arange(problem.k.shape[2])),
        "nobody": Question(position, torch.arange(problem.k.shape[2]), exclude_self=True),
    }
    masses = problem.masses(asked, backend)
    same = (problem.query == problem.key[:, position])[:, None]
    assert_close(masses["all"] - masses["others"], masses["itself"] * same, **CLOSE)
    assert not masses["nobody"].any()


@backends
@settings(max_examples=20)
@given(drawn=problems, exclude_self=st.booleans())
def test_shared_kv_heads_equal_repeated_ones(backend: str, drawn: Drawn, exclude_self: bool) -> None:
    problem = drawn.problem()
    group = N_HEADS // problem.k.shape[1]
    repeated = problem._replace(k=problem.k.repeat_interleave(group, 1), v=problem.v.repeat_interleave(group, 1))
    asked = {"it": Question(problem.query, problem.key, exclude_self)}
    shared, own = problem.see(asked, backend), repeated.see(asked, backend)
    for name in ("output", "logsumexp", "entropy", "sink"):
        assert_close(getattr(shared, name), getattr(own, name), **CLOSE)
    assert_close(shared.mass["it"], own.mass["it"], **CLOSE)
    assert_close(tuple(shared.distance), tuple(own.distance), atol=1e-7, rtol=1e-7)
    assert torch.equal(shared.strongest.key, own.strongest.key)
    assert_close(shared.weights(), own.weights(), **CLOSE)
