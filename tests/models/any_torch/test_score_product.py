"""q and k are the product that the scores follow cell by cell, and rows of a pattern sum to one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headscope.models.any_torch.function_mode import FoundCall, ScoreProduct, Softmax
from headscope.models.any_torch.score_product import (
    DROPOUT,
    NO_PRODUCT,
    find_score_product,
    query_and_key,
    why_no_pattern,
)

LEAD, QUERIES, KEYS, D = (2, 3), 4, 6, 5
EVEN = torch.full((2, 3, QUERIES, KEYS), 1 / KEYS)


def found(
    weights: Tensor | None = EVEN, scores: Tensor | None = None, *products: ScoreProduct, **more: Any
) -> FoundCall:
    softmax = None if scores is None else Softmax(scores, products)
    return FoundCall(
        nn.Identity(),
        "a",
        LEAD,
        QUERIES,
        torch.ones(2, 3, KEYS, 1),
        lambda: EVEN,
        weights=weights,
        softmax=softmax,
        **more,
    )


def changed(value: float, dtype: torch.dtype = torch.float32, row: slice = slice(None)) -> Tensor:
    """Even weights of which one row sums to one and so much more."""
    made = EVEN.clone()
    made[1, 2, 3, row] += value
    return made.to(dtype)


@pytest.mark.parametrize(
    ("weights", "pattern"),
    [
        (None, True),
        (EVEN, True),
        (EVEN * 0, True),
        (changed(1e-5, row=slice(1)), True),
        (changed(1e-3, row=slice(1)), False),
        (changed(-1e-3, row=slice(1)), False),
        (changed(1e-3, torch.float64, slice(1)), False),
        (changed(0.01, torch.bfloat16, slice(1)), True),
        (changed(0.05, torch.bfloat16, slice(1)), False),
        (changed(0.01, torch.float16, slice(1)), True),
        (EVEN / 2, False),
        (EVEN * 2, False),
        (changed(float("nan")), False),
    ],
)
def test_rows_of_a_pattern_sum_to_one_or_are_empty(weights: Tensor | None, pattern: bool) -> None:
    assert (why_no_pattern(found(weights)) == "") is pattern


def test_why_weights_are_no_pattern() -> None:
    negative = EVEN.clone()
    negative[0, 0, 0, :2] = torch.tensor([2 / KEYS + 0.25, -0.25])
    assert "not a softmax over the keys (rows sum to 1–1, the lowest is -0.25)" in why_no_pattern(found(negative))
    assert "(rows sum to 0.5–1, the lowest is 0.083)" in why_no_pattern(found(torch.cat((EVEN, EVEN / 2))))
    assert why_no_pattern(found(None, dropout=0.1)) == DROPOUT


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        (None, (2, 3, QUERIES, D), (2, 3, D, KEYS)),
        (None, (6, QUERIES, D), (6, D, KEYS)),
        (None, (2, 3, QUERIES, D), (2, 1, D, KEYS)),
        (None, (1, 3, QUERIES, D), (2, 1, D, KEYS)),
        ("bhqd,bhkd->bhqk", (2, 3, QUERIES, D), (2, 3, KEYS, D)),
        ("bqhd,bkhd->bhqk", (2, QUERIES, 3, D), (2, KEYS, 3, D)),
        ("...qd,...kd->...qk", (6, QUERIES, D), (6, KEYS, D)),
    ],
)
def test_q_and_k_of_a_product_have_the_leading_axes_of_z(equation: str | None, a: Any, b: Any) -> None:
    one, other = torch.randn(a), torch.randn(b)
    pair = query_and_key(ScoreProduct(one, other, equation, None), found())
    assert pair is not None
    q, k = pair
    assert (q.shape, k.shape) == ((2, 3, QUERIES, D), (2, 3, KEYS, D))
    own = one @ other if equation is None else torch.einsum(equation, one, other)
    assert_close(q @ k.mT, own.reshape(-1, QUERIES, KEYS).view(2, 3, QUERIES, KEYS))


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        (None, (2, 3, QUERIES + 1, D), (2, 3, D, KEYS)),
        (None, (2, 3, QUERIES, D), (2, 3, D, KEYS - 1)),
        (None, (5, QUERIES, D), (5, D, KEYS)),
        (None, (2, 3, QUERIES, D), (5, 1, D, KEYS)),
        (None, (5, 1, QUERIES, D), (2, 3, D, KEYS)),
        ("bhqd,bkd->bhqk", (2, 3, QUERIES, D), (2, KEYS, D)),
        ("bqd,bhkd->bhqk", (2, QUERIES, D), (2, 3, KEYS, D)),
        ("bhqd,bhkd->bqhk", (2, 3, QUERIES, D), (2, 3, KEYS, D)),
        ("bhqd,bhkd->bhkq", (2, 3, QUERIES, D), (2, 3, KEYS, D)),
        ("bhqde,bhkde->bhqk", (2, 3, QUERIES, D, 2), (2, 3, KEYS, D, 2)),
        ("bhqd,bhkd->bhqkd", (2, 3, QUERIES, D), (2, 3, KEYS, D)),
        ("bhqd,bhkd", (2, 3, QUERIES, D), (2, 3, KEYS, D)),
    ],
)
def test_a_product_of_another_form_has_no_q_and_k(equation: str | None, a: Any, b: Any) -> None:
    assert query_and_key(ScoreProduct(torch.randn(a), torch.randn(b), equation, None), found()) is None


def cut() -> ScoreProduct:
    """A product of q and k in a pass with gradients."""
    q, k = torch.randn(2, 3, QUERIES, D), torch.randn(2, 3, KEYS, D)
    return ScoreProduct(q, k.mT, None, (q @ k.mT).requires_grad_())


def leaf(product: ScoreProduct) -> Tensor:
    assert product.leaf is not None
    return product.leaf


def test_the_product_is_found_among_others_with_its_factor() -> None:
    right, other = cut(), cut()
    uncut = other._replace(leaf=None)
    scores = 0.3 * leaf(right) + torch.randn(QUERIES, KEYS)
    for products, back in (((right,), 0), ((other, right), 0), ((right, other), 1), ((right, uncut, other), 2)):
        at, factor, why = find_score_product(found(EVEN, scores, *products))
        assert (at, why) == (back, "")
        assert factor == pytest.approx(0.3, rel=1e-5)


def test_cells_that_a_mask_hides_say_nothing_of_the_factor() -> None:
    right = cut()
    hidden = torch.ones(QUERIES, KEYS).triu(1).bool()
    at, factor, why = find_score_product(found(EVEN, (2 * leaf(right)).masked_fill(hidden, float("-inf")), right))
    assert (at, why) == (0, "")
    assert factor == pytest.approx(2.0, rel=1e-5)


def test_scores_that_follow_a_product_by_no_one_factor_have_none() -> None:
    right = cut()
    bent = torch.cat((leaf(right)[..., :3], 2 * leaf(right)[..., 3:]), -1)
    fewer = leaf(right).mean(-1, keepdim=True).expand(2, 3, QUERIES, KEYS)[:1]
    for scores in (leaf(right).tanh(), bent, leaf(right).flip(-1), leaf(right).mT.reshape(2, 3, 4, 6), fewer):
        assert find_score_product(found(EVEN, scores, right)) == (None, 1.0, "")


def test_scores_that_follow_no_product_are_no_attention() -> None:
    right, other = cut(), cut()
    free = torch.randn(2, 3, QUERIES, KEYS)
    for scores, products in (
        (free, ()),
        (free, (right,)),
        (leaf(other) * 1, (right,)),
        (leaf(right) * 0, (right,)),
        (free.requires_grad_() * 1, (right._replace(leaf=None),)),
    ):
        assert find_score_product(found(EVEN, scores, *products)) == (None, 1.0, NO_PRODUCT)


def test_without_gradients_nothing_is_said_of_products() -> None:
    free, uncut = torch.randn(2, 3, QUERIES, KEYS), cut()._replace(leaf=None)
    assert find_score_product(found(EVEN, free, uncut)) == (None, 1.0, "")
    assert find_score_product(found(EVEN, free, uncut, cut())) == (None, 1.0, NO_PRODUCT)
