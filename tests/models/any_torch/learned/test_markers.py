"""Markers: numbers that are read back exactly, in every precision, and that no other value passes for."""

from __future__ import annotations

import pytest
import torch

from headscope.models.any_torch.axes import Layout
from headscope.models.any_torch.markers import DIGIT_BITS, Markers, _head_order, _layout, _merged, _rectangle

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
