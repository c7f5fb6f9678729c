"""Scores: their blocks, the order of scale, softcap, bias and mask, and the errors for what does not fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from headscope.attention.masks import causal
from headscope.attention.scores import Alibi, Relative, Scores
from headscope.errors import ShapeError
from tests.attention.cases import CASES, Case, logits


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_block_equals_the_scores_of_single_heads(case: Case) -> None:
    q, k, _ = case.qkv(torch.float64)
    rows, columns = torch.arange(case.n_query), torch.arange(case.keys)
    block = case.scores.bind(q, k).block(q, k, rows, columns, case.keys - case.n_query)
    group, allowed = case.n_heads // case.n_kv_heads, case.allowed()
    for head in range(case.n_heads):
        expected = logits(case.scores, 0, head, q[0, head], k[0, head // group])
        assert_close(block[0, head], expected.masked_fill(~allowed[0, head], float("-inf")), atol=1e-6, rtol=1e-6)


def test_a_block_of_some_rows_and_columns_equals_that_part_of_the_whole() -> None:
    q, k = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8)
    scores = Scores(mask=causal(), bias=Alibi(torch.rand(4)), softcap=5.0).bind(q, k)
    every = torch.arange(9)
    rows, columns = torch.tensor([8, 3]), torch.tensor([0, 2, 7])
    whole = scores.block(q, k, every, every, 0)
    assert_close(scores.block(q[:, :, rows], k[:, :, columns], rows, columns, 0), whole[:, :, rows][..., columns])


def bind(scores: Scores, n_heads: int = 4, n_kv_heads: int = 4, n_query: int = 6, n_key: int = 6) -> Scores:
    return scores.bind(torch.zeros(2, n_heads, n_query, 8), torch.zeros(2, n_kv_heads, n_key, 8))


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "groups": (lambda: bind(Scores(), 4, 3), "n_heads=4 is not a multiple of n_kv_heads=3; each KV head serves"),
    "softcap": (lambda: Scores(softcap=0.0), "softcap=0.0 must be above 0; None means no softcap"),
    "slopes": (lambda: bind(Scores(bias=Alibi(torch.ones(3)))), "ALiBi has 3 slopes for 4 heads; give one per head"),
    "softcap-below": (lambda: Scores(softcap=-2.0), "softcap=-2.0 must be above 0"),
    "softcap-nan": (lambda: Scores(softcap=float("nan")), "softcap=nan must be above 0"),
    "sinks": (lambda: bind(Scores(sinks=torch.ones(5))), "5 sinks for 4 heads; give one per head"),
    "relative": (
        lambda: bind(Scores(bias=Relative(torch.ones(4, 9), zero=4))),
        "a relative bias of 4 heads and offsets -4…4 does not cover 4 heads, 6 queries and 6 keys",
    ),
    "relative-heads": (
        lambda: bind(Scores(bias=Relative(torch.ones(3, 99), zero=50))),
        "a relative bias of 3 heads and offsets -50…48 does not cover 4 heads, 6 queries and 6 keys",
    ),
    "bias-batch": (
        lambda: bind(Scores(bias=torch.zeros(3, 1, 6, 6))),
        "a bias of shape (3, 1, 6, 6) does not fit batch 2, 4 heads, 6 queries and 6 keys",
    ),
    "bias-keys": (
        lambda: bind(Scores(bias=torch.zeros(6, 7))),
        "a bias of shape (1, 1, 6, 7) does not fit batch 2, 4 heads, 6 queries and 6 keys",
    ),
    "bias-shape": (
        lambda: bind(Scores(bias=torch.zeros(2, 6, 6))),
        "a bias of shape (1, 2, 6, 6) does not fit batch 2, 4 heads, 6 queries and 6 keys; give (query, key), (head,",
    ),
    "bias-integers": (
        lambda: Scores(bias=torch.zeros(6, 6).long()),
        "a bias is floating-point with 2 to 4 axes, (query, key) last; got torch.int64 of shape (6, 6)",
    ),
    "bias-axes": (lambda: Scores(bias=torch.zeros(6)), "got torch.float32 of shape (6,)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_scores_are_refused_with_their_values(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ShapeError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("shape", [(6, 6), (4, 6, 6), (1, 1, 6, 6), (2, 1, 6, 6), (1, 4, 6, 6), (2, 4, 6, 6)], ids=str)
def test_a_bias_of_any_shape_is_added_where_it_belongs(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    q, every = torch.zeros(2, 4, 6, 8), torch.arange(6)
    block = Scores(bias=values).bind(q, q).block(q, q, every, every, 0)
    assert torch.equal(block, values.expand(2, 4, 6, 6))


def test_a_softcap_bounds_scores_and_leaves_small_ones_as_they_are() -> None:
    q, k, one = torch.full((1, 1, 1, 1), 1.0), torch.tensor([-1e4, -3.0, 0.01, 1e4]), torch.arange(1)
    scores = Scores(scale=1.0, softcap=5.0).bind(q, k[None, None, :, None])
    capped = scores.block(q, k[None, None, :, None], one, torch.arange(4), 3)[0, 0, 0]
    assert_close(capped, torch.tensor([-5.0, -5 * math.tanh(0.6), 0.01, 5.0]), atol=1e-6, rtol=0)
