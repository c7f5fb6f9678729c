"""One pass with markers: which matrix takes which z, in which order, and what is left of the model's own numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headscope.models.any_torch.axes import Layout
from headscope.models.any_torch.function_mode import FoundCall, MatrixUse
from headscope.models.any_torch.markers import NOT_BY_HEAD, SEVERAL_QUERIES, LearnedSite, _Learning
from headscope.models.any_torch.score_product import DROPOUT

BATCH, HEADS, QUERIES, D, OUT = 2, 3, 4, 5, 7
SHAPE = (BATCH, HEADS, QUERIES, D)
W, BIAS = torch.randn(OUT, HEADS * D), torch.randn(OUT)


def found(z: Tensor, site: str = "a", **more: Any) -> FoundCall:
    return FoundCall(nn.Identity(), site, tuple(z.shape[:-2]), z.shape[-2], z, lambda: z, **more)


def merged(z: Tensor) -> Tensor:
    return z.transpose(1, 2).flatten(2)


def use(x: Tensor, weight: Tensor = W, index: int = 0, of_scores: bool = False) -> MatrixUse:
    return MatrixUse(index, "linear", F.linear, (x, weight, BIAS), {}, of_scores)


def learn(
    x_of: Any, weight: Tensor = W, dtype: torch.dtype = torch.float32
) -> tuple[LearnedSite, Tensor | None, Tensor]:
    """One z through one matrix: what was learned, what the matrix gave, and z itself."""
    learning, z = _Learning(dtype, frozenset()), torch.randn(SHAPE)
    marked = learning.visit(found(z))
    made = learning.on_matrix(use(x_of(marked), weight))
    return learning.sites["a"], made, z


def test_a_matrix_that_takes_all_heads_is_w_o_and_gives_the_model_s_own_output() -> None:
    site, made, z = learn(merged)
    assert (site.why, site.layout, site.n_heads) == ("", Layout(("batch", "head"), 1), HEADS)
    (take,) = site.takes
    assert take.parameter is W
    assert take.bias is BIAS
    assert torch.equal(take.order, torch.arange(HEADS * D))
    assert torch.equal(take.rows, torch.arange(BATCH * QUERIES))
    assert torch.equal(z.flatten()[take.cells], merged(z).flatten(0, 1))
    assert made is not None
    torch.testing.assert_close(made, F.linear(merged(z), W, BIAS))


def test_what_stands_beside_the_heads_is_left_as_it_is() -> None:
    weight, beside = torch.randn(OUT, 2 + HEADS * D), torch.full((BATCH, QUERIES, 2), 0.123)
    site, made, z = learn(lambda marked: torch.cat((beside, merged(marked)), -1), weight)
    (take,) = site.takes
    assert torch.equal(take.channels, torch.arange(2, 2 + HEADS * D))
    assert torch.equal(take.order, take.channels)
    assert made is not None
    torch.testing.assert_close(made, F.linear(torch.cat((beside, merged(z)), -1), weight, BIAS))


def test_a_matrix_that_takes_some_rows_is_noted_with_them() -> None:
    site, _, z = learn(lambda marked: merged(marked)[:, 1:3])
    (take,) = site.takes
    assert len(take.rows) == BATCH * 2
    assert torch.equal(z.flatten()[take.cells], merged(z)[:, 1:3].flatten(0, 1))


@pytest.mark.parametrize(
    ("x_of", "why"),
    [
        (lambda z: z.reshape(BATCH, QUERIES, HEADS * D), SEVERAL_QUERIES),
        (lambda z: torch.cat((z[:, 0], z[:, 0], z[:, 1]), -1), NOT_BY_HEAD),
        (lambda z: torch.cat((z[:, 0], z[:, 1]), -1), NOT_BY_HEAD),
    ],
    ids=["reshaped", "one head twice", "two of three heads"],
)
def test_a_matrix_that_takes_z_otherwise_is_no_w_o(x_of: Any, why: str) -> None:
    site, _, _ = learn(x_of, torch.randn(OUT, x_of(torch.zeros(SHAPE)).shape[-1]))
    assert site.why == why
    assert len(site.takes) == 1


@pytest.mark.parametrize(
    "x_of",
    [
        lambda z: merged(z) * 1.01,
        lambda z: -merged(z),
        lambda z: merged(z).relu(),
        lambda z: merged(z)[..., :1],
        lambda z: merged(z)[:1, :1, :1].expand(BATCH, QUERIES, 9),
    ],
    ids=["changed", "negated", "rectified", "one channel", "one cell again and again"],
)
def test_a_matrix_that_takes_no_z_is_not_noted(x_of: Any) -> None:
    weight = torch.randn(OUT, x_of(torch.zeros(SHAPE)).shape[-1])
    site, made, _ = learn(x_of, weight)
    assert (site.takes, site.why) == ([], "")
    assert made is not None


def test_a_second_layout_of_one_site_is_refused() -> None:
    learning, z = _Learning(torch.float32, frozenset()), torch.randn(SHAPE)
    for index, x_of in enumerate((merged, lambda t: t)):
        marked = learning.visit(found(z))
        x = x_of(marked)
        learning.on_matrix(use(x, torch.randn(OUT, x.shape[-1]), index))
    assert learning.sites["a"].why == NOT_BY_HEAD
    assert [take.index for take in learning.sites["a"].takes] == [0, 1]


def test_a_matrix_before_any_attention_is_the_model_s_own() -> None:
    learning, x = _Learning(torch.float32, frozenset()), torch.randn(BATCH, QUERIES, HEADS * D)
    made = learning.on_matrix(use(x))
    assert made is not None
    torch.testing.assert_close(made, F.linear(x, W, BIAS))
    assert learning.on_matrix(use(x, of_scores=True)) is None, "gradients have to go through it"
    assert learning.on_matrix(MatrixUse(0, "matmul", torch.matmul, (x, x[0, 0]), {}, False)) is None


def test_sites_that_are_skipped_or_no_pattern_keep_their_z() -> None:
    z = torch.randn(SHAPE)
    learning = _Learning(torch.float32, frozenset({"a"}))
    assert torch.equal(learning.visit(found(z)), z)
    assert learning.sites["a"].why == ""
    assert torch.equal(learning.visit(found(z, "b", dropout=0.1)), z)
    assert learning.sites["b"].why == DROPOUT
    other = found(z, "c")
    other.lead = (BATCH, HEADS + 1)
    assert torch.equal(learning.visit(other), z), "of another shape than it says"
    assert not torch.equal(learning.visit(found(z, "d")), z)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_put_together_from_its_digits(dtype: torch.dtype) -> None:
    learning, z = _Learning(dtype, frozenset()), torch.randn(2, 3, 90, 5, dtype=dtype)
    weight = W.to(dtype)
    while True:
        marked = learning.visit(found(z))
        learning.on_matrix(MatrixUse(0, "linear", F.linear, (merged(marked), weight), {}, False))
        if learning.markers.digit + 1 >= learning.markers.n_digits:
            break
        learning.markers.digit += 1
    assert learning.markers.n_digits == 2
    assert learning.sites["a"].takes == []
    learning.join_digits()
    (take,) = learning.sites["a"].takes
    assert torch.equal(z.flatten()[take.cells], merged(z).flatten(0, 1))
    assert learning.sites["a"].layout == Layout(("batch", "head"), 1)
