"""Any rectangle of a pattern, recomputed or pooled, equals the same rectangle of the whole pattern."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.attention.cases import CASES, Case, truth
from tests.attention.memory import peak_tensor_bytes
from torch.testing import assert_close

from headscope.attention import pattern
from headscope.attention.engine import observe
from headscope.attention.masks import causal, dense
from headscope.attention.scores import Scores
from headscope.errors import ShapeError

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_a_rectangle_equals_that_part_of_the_pattern(case: Case) -> None:
    seen = observe(*case.qkv(torch.float64), scores=case.scores)
    exact = truth(case).weights
    rows, columns = slice(case.n_query // 3, case.n_query), torch.tensor([case.keys - 1, 0, case.keys // 2])
    assert_close(seen.weights(rows, columns), exact[:, :, rows][..., columns], atol=1e-12, rtol=1e-12)
    head = case.n_heads - 1
    assert_close(
        seen.weights(rows, columns, head=head)[:, 0], exact[:, head, rows][..., columns], atol=1e-12, rtol=1e-12
    )


@every_case
def test_a_source_that_was_not_observed_gives_the_same_pattern(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "BLOCK", 16)
    q, k, _ = case.qkv(torch.float64)
    source = pattern.PatternSource.of(q, k, case.scores.bind(q, k))
    assert_close(pattern.weights(source, slice(None), slice(None)), truth(case).weights, atol=1e-12, rtol=1e-12)


@every_case
def test_pooling_gives_the_mean_and_maximum_of_each_cell(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "BLOCK", 16)
    seen = observe(*case.qkv(torch.float64), scores=case.scores)
    head, shape = case.n_heads - 1, (5, 7)
    pooled = seen.pooled(head, shape)
    exact = truth(case).weights[:, head]
    height, width = (min(cells, length) for cells, length in zip(shape, exact.shape[1:], strict=True))
    assert pooled.mean.shape == pooled.maximum.shape == (case.batch, height, width)
    row_edges = [case.n_query * cell // height for cell in range(height + 1)]
    column_edges = [case.keys * cell // width for cell in range(width + 1)]
    for y, x in ((0, 0), (height - 1, width - 1), (height // 2, width // 2)):
        cell = exact[:, row_edges[y] : row_edges[y + 1], column_edges[x] : column_edges[x + 1]]
        assert_close(pooled.mean[:, y, x], cell.mean((1, 2)), atol=1e-12, rtol=1e-9)
        assert_close(pooled.maximum[:, y, x], cell.amax((1, 2)), atol=1e-12, rtol=1e-9)


def test_pooling_never_stores_the_pattern() -> None:
    q = torch.randn(1, 1, 2048, 16)
    seen = observe(q, q, q, scores=Scores(mask=causal()))
    assert peak_tensor_bytes(lambda: seen.pooled(0, (64, 64))) < 2048 * 2048 * 4 / 2


def test_factors_of_rows_and_keys_multiply_weights_and_pooled_cells() -> None:
    x = torch.randn(1, 1, 40, 8, dtype=torch.float64)
    seen = observe(x, x, x, scores=Scores(mask=causal()))
    plain = pattern.PatternSource(seen.q, seen.k, seen.logsumexp, seen.scores)
    by_row, by_key = torch.rand(40, dtype=torch.float64), torch.rand(40, dtype=torch.float64)
    weighted = replace(plain, by_row=by_row, by_key=by_key)
    expected = seen.weights()[0, 0] * by_row[:, None] * by_key
    assert_close(pattern.weights(weighted, slice(3, 9), slice(2, 7))[0, 0], expected[3:9, 2:7])
    pooled = pattern.pooled(weighted, (10, 8), slice(None), slice(None))
    assert_close(pooled.maximum[0], expected.unflatten(0, (10, 4)).unflatten(2, (8, 5)).amax((1, 3)))


def test_one_head_of_a_source_keeps_its_factors_and_its_own_mask_and_bias() -> None:
    q, k = torch.randn(2, 4, 9, 8, dtype=torch.float64), torch.randn(2, 2, 9, 8, dtype=torch.float64)
    allowed = torch.rand(2, 4, 9, 9) < 0.7
    allowed[..., 0] = True
    scores = Scores(
        mask=causal() & dense(allowed), bias=torch.randn(1, 4, 9, 9).double(), sinks=torch.randn(4).double()
    )
    seen = observe(q, k, k, scores=scores)
    by_row, by_key = torch.rand(9, dtype=torch.float64), torch.rand(9, dtype=torch.float64)
    source = pattern.PatternSource(seen.q, seen.k, seen.logsumexp, seen.scores, by_row, by_key)
    whole = pattern.weights(source, slice(None), slice(None))
    for head in range(4):
        alone = pattern.weights(source.only(head), slice(None), slice(None))
        assert_close(alone, whole[:, head : head + 1])
    assert source.only(None) is source


def test_a_head_row_or_shape_that_does_not_exist_is_refused() -> None:
    x = torch.randn(1, 2, 5, 4)
    seen = observe(x, x, x)
    with pytest.raises(ShapeError, match="there is no head 2; heads are 0–1"):
        seen.weights(head=2)
    with pytest.raises(ShapeError, match="indices 0…5 are outside of the 5 positions"):
        seen.weights(rows=torch.tensor([0, 5]))
    with pytest.raises(ShapeError, match="5 rows and 5 columns cannot be pooled into 0×4 cells"):
        seen.pooled(0, (0, 4))
