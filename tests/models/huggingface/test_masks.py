"""Lazy masks equal those of transformers' own mask functions, and are materialised when used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils as hf

from headscope.models.huggingface.masks import LazyMask, bool_mask, float_mask, requested_mask, split_mask

LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9], dtype=torch.bool)
RIGHT = LEFT.flip(1)
HOLES = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 1, 1], [1] * 9], dtype=torch.bool)
PACKED = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0] * 9])

FUNCTIONS = {
    "causal": hf.causal_mask_function,
    "window": hf.sliding_window_causal_mask_function(3),
    "both sides": hf.bidirectional_mask_function,
    "window on both sides": hf.sliding_window_bidirectional_mask_function(2),
    "packed": hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(PACKED)),
    "packed window": hf.and_masks(hf.sliding_window_causal_mask_function(3), hf.packed_sequence_mask_function(PACKED)),
}


def request(function: Any, padding: Tensor | None = None, n_query: int = 9, offset: int = 0) -> dict[str, Any]:
    return {
        "batch_size": 2, "q_length": n_query, "kv_length": 9, "q_offset": offset, "kv_offset": 0,
        "mask_function": function, "attention_mask": padding, "dtype": torch.float32, "device": "cpu", "config": None,
    }  # fmt: skip


@pytest.mark.parametrize("padding", [None, LEFT, RIGHT, HOLES], ids=["whole", "left", "right", "holes"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lazy_mask_equals_that_of_transformers(name: str, padding: Tensor | None) -> None:
    given = request(FUNCTIONS[name], padding)
    made = bool_mask(**given)
    assert isinstance(made, LazyMask)
    expected = hf.sdpa_mask(**given, allow_is_causal_skip=False)
    assert torch.equal(made.dense(), expected.expand(2, 1, 9, 9))
    low = float_mask(**given)
    assert isinstance(low, LazyMask)
    assert torch.equal(low.dense(), hf.eager_mask(**given).expand(2, 1, 9, 9))


def test_new_queries_after_a_cache_line_up_with_the_last_keys() -> None:
    given = request(hf.causal_mask_function, LEFT, n_query=2, offset=7)
    made = bool_mask(**given)
    assert isinstance(made, LazyMask)
    assert torch.equal(made.dense(), hf.sdpa_mask(**given, allow_is_causal_skip=False))


@pytest.mark.parametrize(
    "given",
    [
        request(hf.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long))),
        request(hf.or_masks(hf.causal_mask_function, hf.blockwise_overlay(PACKED))),
        request(hf.sliding_window_overlay(3)),
        request(hf.sliding_window_causal_mask_function(0)),
        request(lambda b, h, q, k: k <= q),
        request(hf.causal_mask_function, n_query=4, offset=0),
        request(hf.causal_mask_function, n_query=2, offset=torch.tensor(7)),
    ],
    ids=["chunks", "or", "one-sided", "window of 0", "another function", "static cache", "offset in a tensor"],
)
def test_a_mask_that_cannot_be_expressed_is_that_of_transformers(given: dict[str, Any]) -> None:
    assert requested_mask(given) is None
    made = bool_mask(**given)
    assert made is not None
    assert not isinstance(made, LazyMask)
    assert torch.equal(made, hf.sdpa_mask(**given, allow_is_causal_skip=False))


def test_causality_is_never_left_out_but_full_attention_is() -> None:
    assert bool_mask(**request(hf.causal_mask_function), allow_is_causal_skip=True) is not None
    full = request(hf.bidirectional_mask_function)
    assert bool_mask(**full, allow_is_bidirectional_skip=True) is None
    assert bool_mask(**{**full, "attention_mask": LEFT}, allow_is_bidirectional_skip=True) is not None
    assert bool_mask(**full, allow_is_bidirectional_skip=True, local_size=4) is not None


def test_any_operation_materialises_the_mask() -> None:
    made = bool_mask(**request(hf.causal_mask_function))
    assert isinstance(made, LazyMask)
    dense = made.dense()
    for change in (
        lambda m: ~m,
        lambda m: m[..., :5],
        lambda m: m.to(torch.float32),
        lambda m: m & m,
        lambda m: m.any(),
    ):
        assert torch.equal(change(made), change(dense))
        assert not isinstance(change(made), LazyMask)
    assert torch.equal(torch.where(made, 1.0, 0.0), torch.where(dense, 1.0, 0.0))


def test_cropping_to_its_own_length_keeps_the_mask_lazy() -> None:
    made = bool_mask(**request(hf.causal_mask_function))
    assert made is not None
    assert isinstance(made[:, :, :, :9], LazyMask)
    assert isinstance(made.expand(2, 1, 9, 9), LazyMask)
    assert "causal()" in repr(made)


def test_float_masks_are_split_into_mask_and_bias() -> None:
    lowest = torch.finfo(torch.float32).min
    mask = torch.tensor([[0.0, lowest, 0.5], [float("-inf"), -100.0, 0.75 * lowest]])[None, None]
    allowed, bias = split_mask(mask, 2, 3)
    assert torch.equal(allowed.dense(2, 3)[0, 0], torch.tensor([[True, False, True], [False, True, False]]))
    assert bias is not None
    assert bias[0, 0].tolist() == [[0.0, 0.0, 0.5], [0.0, -100.0, 0.0]]


def test_a_mask_without_a_bias_has_none_and_a_longer_one_is_cropped() -> None:
    lowest = torch.finfo(torch.float32).min
    allowed, bias = split_mask(torch.tensor([[0.0, lowest, 0.0, 0.0]])[None, None], 3, 3)
    assert bias is None
    assert torch.equal(allowed.dense(3, 3)[0, 0], torch.tensor([[True, False, True]] * 3))
    assert split_mask(None, 3, 3)[0].is_full
    assert split_mask(torch.zeros(1, 1, 3, 3), 3, 3)[0].is_full


def cached(n_query: int, kv_offset: int, padding: Tensor | None = None) -> dict[str, Any]:
    """The cache of a sliding window: its nine keys begin at ``kv_offset``, and the last query is at the last key."""
    given = request(hf.causal_mask_function, padding, n_query, kv_offset + 9 - n_query)
    return {**given, "kv_offset": kv_offset}


@pytest.mark.parametrize("side", ["left", "right", "holes"])
@pytest.mark.parametrize("n_query", [1, 4])
def test_cached_keys_are_padded_at_their_own_positions(side: str, n_query: int) -> None:
    last = {"left": LEFT, "right": RIGHT, "holes": HOLES}[side]
    padding = torch.cat((torch.ones(2, 3, dtype=torch.bool), last), dim=1)
    given = cached(n_query, 3, padding)
    made = bool_mask(**given)
    assert isinstance(made, LazyMask)
    expected = hf.sdpa_mask(**given, allow_is_causal_skip=False)
    assert torch.equal(made.dense(), expected.expand(2, 1, n_query, 9))


@pytest.mark.parametrize(
    ("given", "expressed"),
    [
        (request(hf.causal_mask_function, LEFT[:, :6]), True),
        (request(hf.causal_mask_function, torch.ones(2, 11, dtype=torch.bool)), False),
        (request(hf.causal_mask_function, torch.ones(2, 1, 9, 9, dtype=torch.bool)), False),
        ({**request(FUNCTIONS["packed"]), "kv_offset": 2, "q_offset": 2}, False),
        (request(hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(PACKED[:, :7]))), False),
        (request(hf.and_masks(hf.causal_mask_function, lambda b, h, q, k: k > 2)), False),
        (request(hf.and_masks(hf.sliding_window_overlay(3), hf.bidirectional_mask_function)), False),
        ({**request(hf.causal_mask_function), "use_vmap": True}, False),
        (request(hf.bidirectional_mask_function, n_query=4, offset=0), True),
    ],
    ids=[
        "short",
        "long",
        "square",
        "packed, late",
        "packed, short",
        "and another function",
        "a window back only",
        "vmap",
        "cross",
    ],
)
def test_which_requests_can_be_expressed(given: dict[str, Any], expressed: bool) -> None:
    """A padding that ends early masks the rest; one that is longer than the keys is left to transformers."""
    mask = requested_mask(given)
    assert (mask is not None) == expressed
    if mask is not None:
        shape = (given["q_length"], given["kv_length"])
        expected = hf.sdpa_mask(**{**given, "allow_is_causal_skip": False})
        assert torch.equal(mask.dense(*shape).expand(2, 1, *shape), expected.expand(2, 1, *shape))


def causal_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """Another function with the name of a known one."""
    return key >= query


def test_a_function_is_recognised_by_its_module_too() -> None:
    assert causal_mask_function.__qualname__ == hf.causal_mask_function.__qualname__
    assert requested_mask(request(causal_mask_function)) is None


CROPS: dict[str, tuple[Any, bool]] = {
    "whole": (lambda m: m[:, :, :, :9], True),
    "beyond its end": (lambda m: m[:, :, :, :12], True),
    "from the start": (lambda m: m[:, :, 0:], True),
    "detached": (lambda m: m.detach(), True),
    "as wide as it is": (lambda m: m.expand(-1, 1, 9, -1), True),
    "the last row": (lambda m: m[:, :, -1:], False),
    "from the second key": (lambda m: m[..., 1:], False),
    "every other key": (lambda m: m[..., ::2], False),
    "for four heads": (lambda m: m.expand(2, 4, 9, 9), False),
    "with an axis more": (lambda m: m.expand(1, 2, 1, 9, 9), False),
}


@pytest.mark.parametrize("name", CROPS)
def test_only_views_with_all_elements_stay_lazy(name: str) -> None:
    change, keeps = CROPS[name]
    made = bool_mask(**request(hf.causal_mask_function, LEFT))
    assert isinstance(made, LazyMask)
    changed = change(made)
    assert isinstance(changed, LazyMask) == keeps
    dense = changed.dense() if isinstance(changed, LazyMask) else changed
    assert torch.equal(dense, change(made.dense()))


@pytest.mark.parametrize(
    ("mask", "shown"),
    [
        (torch.tensor([[1, 0, 1]]), [[True, False, True]] * 2),
        (torch.tensor([[True, False, True, True]]), [[True, False, True]] * 2),
        (torch.tensor([[0.0, -7e4, 0.0]]).half(), [[True, False, True]] * 2),
        (torch.tensor([[[0.0, float("-inf"), 0.0], [0.0, 0.0, 0.0]]]), [[True, False, True], [True, True, True]]),
    ],
    ids=["integers", "one key too many", "half precision", "three axes"],
)
def test_masks_of_any_kind_are_read(mask: Tensor, shown: list[list[bool]]) -> None:
    allowed, bias = split_mask(mask, 2, 3)
    assert allowed.bind(1, 1, 2, 3).dense(2, 3)[0, 0].tolist() == shown
    assert bias is None


def test_a_lazy_mask_of_another_size_is_materialised() -> None:
    """A mask of the whole text, given to a layer that keeps fewer keys."""
    made = bool_mask(**request(hf.causal_mask_function, LEFT))
    assert made is not None
    allowed, bias = split_mask(made, 9, 5)
    assert bias is None
    assert torch.equal(allowed.dense(9, 5), made[..., :5])
    assert split_mask(made, 9, 9)[0] is made.mask
    low = float_mask(**request(hf.causal_mask_function))
    assert low is not None
    assert torch.equal(split_mask(low, 9, 5)[0].dense(9, 5)[0, 0], torch.ones(9, 5).tril().bool())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_float_mask_has_the_models_own_lowest_number(dtype: torch.dtype) -> None:
    made = float_mask(**{**request(hf.causal_mask_function), "dtype": dtype})
    assert isinstance(made, LazyMask)
    assert made.dtype == made.dense().dtype == dtype
    assert float(made.dense().min()) == torch.finfo(dtype).min
    assert made.dense() is made.dense(), "made once"


@pytest.mark.parametrize(
    ("view", "lazy"),
    [
        (lambda m: m[:, :, :, :9], True),
        (lambda m: m[:, :, 0:, :20], True),
        (lambda m: m[:2], True),
        (lambda m: m.expand(-1, 1, -1, 9), True),
        (lambda m: m.detach(), True),
        (lambda m: m[:, :, :, :8], False),
        (lambda m: m[:, :, 1:], False),
        (lambda m: m[:, :, :, ::2], False),
        (lambda m: m[1:], False),
        (lambda m: m.expand(2, 3, 9, 9), False),
        (lambda m: m.expand(1, 2, 1, 9, 9), False),
    ],
)
def test_a_view_of_the_whole_mask_stays_lazy_and_others_are_what_they_show(view: Any, lazy: bool) -> None:
    made = bool_mask(**request(hf.causal_mask_function, LEFT))
    assert isinstance(made, LazyMask)
    seen = view(made)
    assert isinstance(seen, LazyMask) is lazy
    assert torch.equal(seen.dense() if isinstance(seen, LazyMask) else seen, view(made.dense()))


@pytest.mark.parametrize(("local", "padding", "left_out"), [(10, None, True), (9, None, False), (10, LEFT, False)])
def test_a_local_window_over_all_keys_is_no_mask(local: int, padding: Tensor | None, left_out: bool) -> None:
    given = request(hf.bidirectional_mask_function, padding)
    made = bool_mask(**given, allow_is_bidirectional_skip=True, local_size=local)
    assert (made is None) is left_out
    whole = request(hf.bidirectional_mask_function, torch.ones(2, 9, dtype=torch.bool))
    assert bool_mask(**whole, allow_is_bidirectional_skip=True) is None
