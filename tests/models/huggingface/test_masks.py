"""Masks in words say what transformers' own mask functions say, and become honest cells when touched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils as hf

from headscope.models.huggingface.masks import WordMask, bool_mask, float_mask, in_words, read_mask

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


def asked(function: Any, padding: Tensor | None = None, n_query: int = 9, offset: int = 0) -> dict[str, Any]:
    return {
        "batch_size": 2, "q_length": n_query, "kv_length": 9, "q_offset": offset, "kv_offset": 0,
        "mask_function": function, "attention_mask": padding, "dtype": torch.float32, "device": "cpu", "config": None,
    }  # fmt: skip


@pytest.mark.parametrize("padding", [None, LEFT, RIGHT, HOLES], ids=["whole", "left", "right", "holes"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_words_say_what_the_honest_mask_says(name: str, padding: Tensor | None) -> None:
    request = asked(FUNCTIONS[name], padding)
    made = bool_mask(**request)
    assert isinstance(made, WordMask)
    honest = hf.sdpa_mask(**request, allow_is_causal_skip=False)
    assert torch.equal(made.cells(), honest.expand(2, 1, 9, 9))
    low = float_mask(**request)
    assert isinstance(low, WordMask)
    assert torch.equal(low.cells(), hf.eager_mask(**request).expand(2, 1, 9, 9))


def test_new_queries_after_a_cache_line_up_with_the_last_keys() -> None:
    request = asked(hf.causal_mask_function, LEFT, n_query=2, offset=7)
    made = bool_mask(**request)
    assert isinstance(made, WordMask)
    assert torch.equal(made.cells(), hf.sdpa_mask(**request, allow_is_causal_skip=False))


@pytest.mark.parametrize(
    "request_",
    [
        asked(hf.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long))),
        asked(hf.or_masks(hf.causal_mask_function, hf.blockwise_overlay(PACKED))),
        asked(hf.sliding_window_overlay(3)),
        asked(hf.sliding_window_causal_mask_function(0)),
        asked(lambda b, h, q, k: k <= q),
        asked(hf.causal_mask_function, n_query=4, offset=0),
        asked(hf.causal_mask_function, n_query=2, offset=torch.tensor(7)),
    ],
    ids=["chunks", "or", "one-sided", "window of 0", "a stranger's", "static cache", "offset in a tensor"],
)
def test_what_has_no_words_is_given_as_the_honest_mask(request_: dict[str, Any]) -> None:
    assert in_words(request_) is None
    made = bool_mask(**request_)
    assert made is not None
    assert not isinstance(made, WordMask)
    assert torch.equal(made, hf.sdpa_mask(**request_, allow_is_causal_skip=False))


def test_causality_is_never_left_out_but_full_attention_is() -> None:
    assert bool_mask(**asked(hf.causal_mask_function), allow_is_causal_skip=True) is not None
    full = asked(hf.bidirectional_mask_function)
    assert bool_mask(**full, allow_is_bidirectional_skip=True) is None
    assert bool_mask(**{**full, "attention_mask": LEFT}, allow_is_bidirectional_skip=True) is not None
    assert bool_mask(**full, allow_is_bidirectional_skip=True, local_size=4) is not None


def test_any_operation_gets_honest_cells() -> None:
    made = bool_mask(**asked(hf.causal_mask_function))
    assert isinstance(made, WordMask)
    cells = made.cells()
    for change in (
        lambda m: ~m,
        lambda m: m[..., :5],
        lambda m: m.to(torch.float32),
        lambda m: m & m,
        lambda m: m.any(),
    ):
        assert torch.equal(change(made), change(cells))
        assert not isinstance(change(made), WordMask)
    assert torch.equal(torch.where(made, 1.0, 0.0), torch.where(cells, 1.0, 0.0))


def test_cropping_to_the_length_it_has_keeps_the_words() -> None:
    made = bool_mask(**asked(hf.causal_mask_function))
    assert made is not None
    assert isinstance(made[:, :, :, :9], WordMask)
    assert isinstance(made.expand(2, 1, 9, 9), WordMask)
    assert "causal()" in repr(made)


def test_float_masks_are_split_into_hiding_and_bias() -> None:
    lowest = torch.finfo(torch.float32).min
    mask = torch.tensor([[0.0, lowest, 0.5], [float("-inf"), -100.0, 0.75 * lowest]])[None, None]
    words, bias = read_mask(mask, 2, 3)
    assert torch.equal(words.dense(2, 3)[0, 0], torch.tensor([[True, False, True], [False, True, False]]))
    assert bias is not None
    assert bias[0, 0].tolist() == [[0.0, 0.0, 0.5], [0.0, -100.0, 0.0]]


def test_a_mask_without_a_bias_brings_none_and_a_longer_one_is_cropped() -> None:
    lowest = torch.finfo(torch.float32).min
    words, bias = read_mask(torch.tensor([[0.0, lowest, 0.0, 0.0]])[None, None], 3, 3)
    assert bias is None
    assert torch.equal(words.dense(3, 3)[0, 0], torch.tensor([[True, False, True]] * 3))
    assert read_mask(None, 3, 3)[0].is_full
    assert read_mask(torch.zeros(1, 1, 3, 3), 3, 3)[0].is_full


def cached(n_query: int, kv_offset: int, padding: Tensor | None = None) -> dict[str, Any]:
    """A window's cache: its nine keys begin at ``kv_offset`` of the text, and the last queries end with them."""
    request = asked(hf.causal_mask_function, padding, n_query, kv_offset + 9 - n_query)
    return {**request, "kv_offset": kv_offset}


@pytest.mark.parametrize("side", ["left", "right", "holes"])
@pytest.mark.parametrize("n_query", [1, 4])
def test_keys_that_begin_late_are_padded_by_their_own_places(side: str, n_query: int) -> None:
    places = {"left": LEFT, "right": RIGHT, "holes": HOLES}[side]
    padding = torch.cat((torch.ones(2, 3, dtype=torch.bool), places), dim=1)
    request = cached(n_query, 3, padding)
    made = bool_mask(**request)
    assert isinstance(made, WordMask)
    honest = hf.sdpa_mask(**request, allow_is_causal_skip=False)
    assert torch.equal(made.cells(), honest.expand(2, 1, n_query, 9))


@pytest.mark.parametrize(
    ("request_", "worded"),
    [
        (asked(hf.causal_mask_function, LEFT[:, :6]), True),
        (asked(hf.causal_mask_function, torch.ones(2, 11, dtype=torch.bool)), False),
        (asked(hf.causal_mask_function, torch.ones(2, 1, 9, 9, dtype=torch.bool)), False),
        ({**asked(FUNCTIONS["packed"]), "kv_offset": 2, "q_offset": 2}, False),
        (asked(hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(PACKED[:, :7]))), False),
        (asked(hf.and_masks(hf.causal_mask_function, lambda b, h, q, k: k > 2)), False),
        (asked(hf.and_masks(hf.sliding_window_overlay(3), hf.bidirectional_mask_function)), False),
        ({**asked(hf.causal_mask_function), "use_vmap": True}, False),
        (asked(hf.bidirectional_mask_function, n_query=4, offset=0), True),
    ],
    ids=[
        "short",
        "long",
        "square",
        "packed, late",
        "packed, short",
        "and a stranger",
        "a window back only",
        "vmap",
        "cross",
    ],
)
def test_what_is_put_into_words_and_what_is_left_to_transformers(request_: dict[str, Any], worded: bool) -> None:
    """A padding that ends early hides the rest; one that says more than there are keys is not ours to read."""
    words = in_words(request_)
    assert (words is not None) == worded
    if words is not None:
        shape = (request_["q_length"], request_["kv_length"])
        honest = hf.sdpa_mask(**{**request_, "allow_is_causal_skip": False})
        assert torch.equal(words.dense(*shape).expand(2, 1, *shape), honest.expand(2, 1, *shape))


def causal_mask_function(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """A stranger's, by the name of one that we know."""
    return key >= query


def test_a_function_is_known_by_where_it_comes_from_too() -> None:
    assert causal_mask_function.__qualname__ == hf.causal_mask_function.__qualname__
    assert in_words(asked(causal_mask_function)) is None


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
def test_only_what_changes_nothing_keeps_the_words(name: str) -> None:
    change, keeps = CROPS[name]
    made = bool_mask(**asked(hf.causal_mask_function, LEFT))
    assert isinstance(made, WordMask)
    changed = change(made)
    assert isinstance(changed, WordMask) == keeps
    cells = changed.cells() if isinstance(changed, WordMask) else changed
    assert torch.equal(cells, change(made.cells()))


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
    words, bias = read_mask(mask, 2, 3)
    assert words.bind(1, 1, 2, 3).dense(2, 3)[0, 0].tolist() == shown
    assert bias is None


def test_words_of_another_size_are_read_by_their_cells() -> None:
    """A mask of the whole text, given to a layer that keeps fewer keys."""
    made = bool_mask(**asked(hf.causal_mask_function, LEFT))
    assert made is not None
    words, bias = read_mask(made, 9, 5)
    assert bias is None
    assert torch.equal(words.dense(9, 5), made[..., :5])
    assert read_mask(made, 9, 9)[0] is made.words
    low = float_mask(**asked(hf.causal_mask_function))
    assert low is not None
    assert torch.equal(read_mask(low, 9, 5)[0].dense(9, 5)[0, 0], torch.ones(9, 5).tril().bool())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_float_mask_has_the_models_own_lowest_number(dtype: torch.dtype) -> None:
    made = float_mask(**{**asked(hf.causal_mask_function), "dtype": dtype})
    assert isinstance(made, WordMask)
    assert made.dtype == made.cells().dtype == dtype
    assert float(made.cells().min()) == torch.finfo(dtype).min
    assert made.cells() is made.cells(), "made once"
