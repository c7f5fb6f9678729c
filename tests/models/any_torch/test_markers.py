"""Markers: numbers that are read back exactly, in every precision, and that no other value passes for."""

from __future__ import annotations

import pytest
import torch

from headscope.models.any_torch.markers import DIGIT_BITS, Markers

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
