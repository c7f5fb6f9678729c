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


def test_float_masks_are_split_into_mask_and_bias() -> None:
    lowest = torch.finfo(torch.float32).min
    mask = torch.tensor([[0.0, lowest, 0.5], [float("-inf"), -100.0, 0.75 * lowest]])[None, None]
    allowed, bias = split_mask(mask, 2, 3)
    assert torch.equal(allowed.dense(2, 3)[0, 0], torch.tensor([[True, False, True], [False, True, False]]))
    assert bias is not None
    assert bias[0, 0].tolist() == [[0.0, 0.0, 0.5], [0.0, -100.0, 0.0]]


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


def causal_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """Another function with the name of a known one."""
    return key >= query


@pytest.mark.parametrize(("local", "padding", "left_out"), [(10, None, True), (9, None, False), (10, LEFT, False)])
def test_a_local_window_over_all_keys_is_not_a_mask(local: int, padding: Tensor | None, left_out: bool) -> None:
    given = request(hf.bidirectional_mask_function, padding)
    made = bool_mask(**given, allow_is_bidirectional_skip=True, local_size=local)
    assert (made is None) is left_out
    whole = request(hf.bidirectional_mask_function, torch.ones(2, 9, dtype=torch.bool))
    assert bool_mask(**whole, allow_is_bidirectional_skip=True) is None
