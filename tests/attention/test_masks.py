"""Masks equal a predicate over (batch item, query, key), and their bounds hold for the whole grid."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headscope.attention.masks import Dense, Mask, causal, dense, documents, full, padding, window
from headscope.errors import MaskError

IDS = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2, 2], [5, 5, 5, 5, 5, 5, 5, 5, 5, 9]])
LENGTHS = torch.tensor([10, 4])
ANY = torch.rand(2, 3, 10, 10, generator=torch.Generator().manual_seed(0)) < 0.5

Predicate = Callable[[Tensor, Tensor, Tensor], Tensor]

PREDICATES: dict[str, tuple[Mask, Predicate]] = {
    "full": (full(), lambda b, i, j: i == i),
    "causal": (causal(), lambda b, i, j: j <= i),
    "window": (window(3), lambda b, i, j: (i - j).abs() <= 2),
    "sliding": (causal() & window(3), lambda b, i, j: (j <= i) & (j > i - 3)),
    "padding": (padding(LENGTHS), lambda b, i, j: j < LENGTHS[b]),
    "padding-left": (padding(LENGTHS, side="left"), lambda b, i, j: j >= 10 - LENGTHS[b]),
    "documents": (documents(IDS), lambda b, i, j: IDS[b, i] == IDS[b, j]),
    "dense": (dense(ANY[:, 0]), lambda b, i, j: ANY[b, 0, i, j]),
    "all": (
        causal() & window(4) & padding(LENGTHS) & documents(IDS) & dense(ANY[:, 1]),
        lambda b, i, j: (j <= i) & (j > i - 4) & (j < LENGTHS[b]) & (IDS[b, i] == IDS[b, j]) & ANY[b, 1, i, j],
    ),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_each_mask_equals_its_predicate(name: str) -> None:
    mask, predicate = PREDICATES[name]
    grid = mask.bind(2, 3, 10, 10).dense(10, 10).expand(2, -1, 10, 10)
    b, i, j = torch.meshgrid(torch.arange(2), torch.arange(10), torch.arange(10), indexing="ij")
    assert torch.equal(grid[:, 0], predicate(b, i, j).expand(2, 10, 10))


@pytest.mark.parametrize("name", sorted(set(PREDICATES) - {"dense", "all"}))
def test_queries_after_a_cache_line_up_with_the_end_of_the_keys(name: str) -> None:
    mask = PREDICATES[name][0]
    whole = mask.bind(2, 3, 10, 10).dense(10, 10)
    assert torch.equal(mask.bind(2, 3, 4, 10).dense(4, 10), whole[:, :, -4:])


def test_a_mask_may_differ_between_heads() -> None:
    assert torch.equal(dense(ANY).bind(2, 3, 10, 10).dense(10, 10), ANY)


def test_any_block_is_cut_from_the_whole() -> None:
    mask = PREDICATES["all"][0].bind(2, 3, 10, 10)
    rows, columns = torch.tensor([7, 2, 2]), torch.tensor([9, 0, 5, 4])
    assert torch.equal(mask.block(rows, columns, 0), mask.dense(10, 10)[:, :, rows][..., columns])


@st.composite
def recipes(draw: st.DrawFn) -> tuple[list[tuple[str, int]], int, int]:
    """Parts to compose, each with a number to make it from, and sizes with at least as many keys as queries."""
    n_key = draw(st.integers(1, 24))
    kinds = st.sampled_from(["causal", "window", "right", "left", "documents", "dense"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 999)), max_size=3)), draw(st.integers(1, n_key)), n_key


def compose(recipe: list[tuple[str, int]], n_query: int, n_key: int) -> Mask:
    mask = full()
    for kind, number in recipe:
        generator = torch.Generator().manual_seed(number)
        if kind == "causal":
            mask = mask & causal()
        elif kind == "window":
            mask = mask & window(1 + number % 30)
        elif kind == "documents":
            mask = mask & documents(torch.randint(0, 3, (2, n_key), generator=generator))
        elif kind == "dense":
            mask = mask & dense(torch.rand(n_query, n_key, generator=generator) < 0.7)
        else:
            mask = mask & padding(torch.randint(0, n_key + 1, (2,), generator=generator), side=kind)
    return mask.bind(2, 1, n_query, n_key)


@given(recipes(), st.integers(0, 23), st.integers(1, 24))
def test_outside_the_first_bounds_all_is_masked_and_inside_the_second_nothing_is(
    recipe: tuple[list[tuple[str, int]], int, int], start: int, height: int
) -> None:
    kinds, n_query, n_key = recipe
    mask, start = compose(kinds, n_query, n_key), start % n_query
    stop = min(start + height, n_query)
    band = mask.dense(n_query, n_key)[:, :, start:stop]
    low, high = mask.visible_to_any(start, stop, n_key - n_query, n_key)
    assert 0 <= low <= high <= n_key
    assert not band[..., :low].any()
    assert not band[..., high:].any()
    low, high = mask.visible_to_all(start, stop, n_key - n_query, n_key)
    assert 0 <= low <= high <= n_key
    assert band[..., low:high].all()


NAN = torch.zeros(4, 4)
NAN[2, 3] = float("nan")

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "window": (lambda: window(0), "window(0): a window of less than one key masks everything; give at least 1"),
    "lengths": (lambda: padding([1.5]), "one whole number ≥ 0 per batch item, got [1.5]"),
    "negative": (lambda: padding([3, -1]), "one whole number ≥ 0 per batch item, got [3, -1]"),
    "too-long": (lambda: padding([3, 12]).bind(2, 1, 8, 8), "padding has a length of 12 keys, but there are only 8"),
    "batch": (lambda: padding([3, 4]).bind(3, 1, 8, 8), "padding has 2 lengths for a batch of 3; give one length"),
    "ids": (lambda: documents(torch.zeros(8)), "documents needs integer ids of shape (key) or (batch, key)"),
    "ids-shape": (
        lambda: documents([[0, 1, 1]]).bind(1, 1, 4, 4),
        "documents has ids of shape (1, 3) for batch 1, 4 queries and 4 keys; give one id per key: (1, 4)",
    ),
    "axes": (lambda: dense(torch.ones(4)), "a dense mask has 2 to 4 axes, (query, key) last; got shape (4,)"),
    "five-axes": (lambda: dense(torch.ones(1, 1, 1, 4, 4)), "a dense mask has 2 to 4 axes, (query, key) last; got"),
    "no-lengths": (lambda: padding([]), "one whole number ≥ 0 per batch item, got []"),
    "lengths-axes": (lambda: padding(torch.ones(2, 2).long()), "one whole number ≥ 0 per batch item, got tensor"),
    "ids-batch": (lambda: documents([[0], [1]]).bind(3, 1, 1, 1), "ids of shape (2, 1) for batch 3, 1 queries and 1"),
    "ids-queries": (
        lambda: documents([0, 1]).bind(1, 1, 3, 2),
        "for batch 1, 3 queries and 2 keys; give one id per key",
    ),
    "ids-axes": (lambda: documents(torch.zeros(1, 1, 1).long()), "shape (key) or (batch, key), got shape (1, 1, 1)"),
    "integers": (lambda: dense(torch.ones(4, 4).long()), "a dense mask of torch.int64 is ambiguous (keep or mask?)"),
    "nan": (lambda: dense(NAN), "the mask has 1 NaN, the first at (0, 0, 2, 3); use 0 to attend and −inf to mask"),
    "bias": (lambda: dense(torch.full((4, 4), 0.5)), "the mask has 0.5, neither 0 nor −inf; numbers to add to scores"),
    "shape": (
        lambda: dense(torch.ones(2, 3, 4, 5).bool()).bind(2, 6, 4, 5),
        "a dense mask of shape (2, 3, 4, 5) does not fit batch 2, 6 heads, 4 queries and 5 keys",
    ),
    "not-a-mask": (lambda: causal() & torch.ones(4, 4), "& joins two masks, got Tensor; wrap a tensor in dense(…)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_mask_is_refused_with_its_values(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(MaskError, match=re.escape(message)):
        make()


@given(st.integers(1, 12), st.integers(0, 9), st.integers(1, 5), st.integers(0, 8), st.booleans())
def test_the_bounds_of_windows_are_the_tightest_there_are(
    width: int, start: int, height: int, extra: int, one_sided: bool
) -> None:
    mask = causal() & window(width) if one_sided else window(width)
    n_query, n_key = start + height, start + height + extra
    band = mask.dense(n_query, n_key)[0, 0, start:]
    low, high = mask.visible_to_any(start, n_query, extra, n_key)
    by_any = band.any(0).nonzero()[:, 0].tolist()
    assert (low, high) == (by_any[0], by_any[-1] + 1)
    low, high = mask.visible_to_all(start, n_query, extra, n_key)
    by_all = band.all(0).nonzero()[:, 0].tolist()
    assert list(range(low, high)) == by_all


def test_the_mask_of_one_head_is_its_own_or_the_shared_one() -> None:
    (part,) = dense(ANY).parts
    assert isinstance(part, Dense)
    for head in range(3):
        assert torch.equal(part.only(head).allowed, ANY[:, head : head + 1])
    (shared,) = dense(ANY[:, :1]).parts
    assert isinstance(shared, Dense)
    assert shared.only(2) is shared
