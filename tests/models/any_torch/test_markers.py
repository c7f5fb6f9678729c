"""Markers: numbers that are read back exactly and that nothing else passes for; and what one pass learns from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headscope.models.any_torch.axes import Layout
from headscope.models.any_torch.function_mode import FoundCall, MatrixUse
from headscope.models.any_torch.markers import (
    DIGIT_BITS,
    NOT_BY_HEAD,
    SEVERAL_QUERIES,
    LearnedSite,
    Markers,
    _head_order,
    _layout,
    _Learning,
    _merged,
    _rectangle,
)
from headscope.models.any_torch.score_product import DROPOUT

DTYPES = list(DIGIT_BITS)


def numbers(markers: Markers, site: str, z: torch.Tensor) -> torch.Tensor:
    """The numbers of all cells of z, put together from the digits of every pass."""
    total = torch.zeros(z.shape, dtype=torch.long)
    markers.mark(site, z)
    for digit in range(markers.n_digits):
        markers.digit = digit
        code = markers.read(markers.mark(site, z))
        assert bool((code >= 1).all())
        total += (code - 1) << markers.bits * digit
    return total


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_cell_of_two_sites_has_a_number_of_its_own(dtype: torch.dtype) -> None:
    markers, z = Markers(dtype), torch.zeros(2, 3, 40, 7, dtype=dtype)
    first, second = numbers(markers, "0", z), numbers(markers, "1", z)
    assert first.flatten().tolist() == list(range(1, 1 + z.numel()))
    assert second.flatten().tolist() == list(range(1 + z.numel(), 1 + 2 * z.numel()))


@pytest.mark.parametrize(
    ("dtype", "cells", "passes"),
    [(torch.float32, 10**6, 1), (torch.float16, 1000, 1), (torch.float16, 1100, 2), (torch.bfloat16, 20_000, 3)],
    ids=str,
)
def test_half_precision_needs_a_pass_for_each_digit(dtype: torch.dtype, cells: int, passes: int) -> None:
    markers = Markers(dtype)
    markers.mark("0", torch.zeros(cells, dtype=dtype))
    assert markers.n_digits == passes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_markers_have_both_signs_and_their_negatives_are_none(dtype: torch.dtype) -> None:
    markers = Markers(dtype)
    marked = markers.mark("0", torch.zeros(100, dtype=dtype))
    assert 20 < int((marked < 0).sum()) < 80
    assert not bool(markers.read(-marked).any())


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), -float("inf"), 0.0001])
def test_what_is_no_marker_reads_as_none(value: float) -> None:
    assert Markers(torch.float32).read(torch.full((3,), value)).tolist() == [0, 0, 0]


def test_numbers_beyond_the_last_are_no_markers() -> None:
    markers = Markers(torch.float16)
    beyond = torch.tensor([1 << markers.bits, (1 << markers.bits) + 1], dtype=torch.float64)
    read = torch.stack([markers.read(beyond * markers.step), markers.read(-beyond * markers.step)]).amax(0)
    assert read.tolist() == [1 << markers.bits, 0]


def test_a_number_that_was_read_is_not_given_out_beside_new_ones() -> None:
    markers, z = Markers(torch.float32), torch.zeros(5)
    markers.mark("0", z)
    markers.taken.add("0")
    markers.mark("1", z)
    assert list(markers.spans) == ["1"]
    assert Markers(torch.bfloat16).bits <= 20  # there all digits of a number are needed until the last pass


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_holds_its_markers_and_one_bit_more_exactly(dtype: torch.dtype) -> None:
    markers = Markers(dtype)
    largest = torch.tensor([2**markers.bits, 2**markers.bits - 1], dtype=torch.float64)
    assert torch.equal(largest.to(dtype).double(), largest)
    assert markers.step == 2.0 ** -min(10, markers.bits // 2)
    assert markers.n_digits == 1


def test_markers_take_one_bit_less_than_a_dtype_holds() -> None:
    for dtype, bits in DIGIT_BITS.items():
        assert bits == min(40, -int(torch.tensor(torch.finfo(dtype).eps).log2())), dtype
    assert Markers(torch.float8_e5m2).bits == min(DIGIT_BITS.values()), "as the coarsest, where nothing is known"


def rectangle(*lines: str) -> tuple[list[int], list[int]] | None:
    found = _rectangle(torch.tensor([[cell == "x" for cell in line] for line in lines]))
    return None if found is None else (found[0].tolist(), found[1].tolist())


def test_markers_of_a_site_are_a_rectangle_of_rows_and_channels() -> None:
    assert rectangle("....", "....") is None
    assert rectangle(".xx.", ".xx.") == ([0, 1], [1, 2])
    assert rectangle(".xx.", "....", ".xx.") == ([0, 2], [1, 2])
    assert rectangle("xxx.", "xxx.", "xxx.", "xxx.", "xxxx") == ([0, 1, 2, 3, 4], [0, 1, 2]), "one stray of sixteen"
    assert rectangle("x..x", ".xx.") is None, "strays alone"
    assert rectangle("xx..", "xx..", "..x.") is None, "one of five is too many"


def cells(shape: tuple[int, ...], order: tuple[int, ...], rows: int) -> torch.Tensor:
    """Cells of a z of this shape, its axes in this order, in so many rows."""
    return torch.arange(torch.Size(shape).numel()).view(shape).permute(order).reshape(rows, -1)


@pytest.mark.parametrize(
    ("shape", "order", "rows", "layout"),
    [
        ((2, 3, 4, 5), (0, 2, 1, 3), 8, Layout(("batch", "head"), 1)),
        ((3, 2, 4, 5), (1, 2, 0, 3), 8, Layout(("head", "batch"), 1)),
        ((2, 3, 4, 5), (2, 0, 1, 3), 8, Layout(("batch", "head"), 1)),
        ((2, 3, 4, 5), (0, 1, 2, 3), 24, Layout(("batch", "batch"), 1)),
        ((3, 4, 5), (1, 0, 2), 4, Layout(("head",), 1)),
        ((2, 3, 4, 5), (0, 1, 2, 3), 6, None),
        ((2, 3, 4, 5), (0, 3, 1, 2), 10, None),
    ],
)
def test_which_axis_is_the_head_is_read_from_rows_of_cells(
    shape: tuple[int, ...], order: tuple[int, ...], rows: int, layout: Layout | None
) -> None:
    assert _layout(cells(shape, order, rows), shape) == layout


@pytest.mark.parametrize(("kind", "split"), [("batch head", (2, 3)), ("head batch", (3, 2))])
def test_batch_and_head_in_one_axis_are_told_apart(kind: str, split: tuple[int, int]) -> None:
    z = torch.arange(6 * 4 * 5).view(*split, 4, 5)
    rows = (z if kind == "batch head" else z.transpose(0, 1)).transpose(1, 2).reshape(8, 15)
    assert _layout(rows, (6, 4, 5)) == Layout((kind,), 3)  # type: ignore[arg-type]


def test_an_axis_that_is_neither_batch_nor_heads_is_none() -> None:
    assert _merged(torch.tensor([[0, 0], [1, 1]]), 6) == (None, 1), "one head"
    assert _merged(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 6) == (None, 1), "four of six"
    assert _merged(torch.tensor([[0, 3], [1, 2]]), 4) == (None, 1), "neither counts faster"
    assert _merged(torch.tensor([[0, 1], [2, 3]]), 4) == ("batch head", 2)
    assert _merged(torch.tensor([[0, 1]]), 4) == ("batch head", 2), "one row"
    assert _merged(torch.tensor([[0, 2], [1, 3]]), 4) == ("head batch", 2)


def test_channels_are_ordered_by_head_and_number() -> None:
    layout, shape = Layout(("batch", "head"), 1), (2, 3, 4, 5)
    row = cells(shape, (0, 2, 1, 3), 8)[6]
    shuffled = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    order = _head_order(layout, row[shuffled], shape)
    assert order is not None
    assert torch.equal(row[shuffled][order], row)
    assert _head_order(layout, row[:-1], shape) is None, "one number is missing"
    assert _head_order(layout, torch.cat((row[:-1], row[:1])), shape) is None, "one is there twice"
    assert _head_order(Layout((), 1), torch.tensor([4, 3]), (4, 2)) is not None, "no leading axes: one head"


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
