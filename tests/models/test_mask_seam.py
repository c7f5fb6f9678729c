"""Masks in words say what transformers' own mask functions say, and become honest cells when touched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils as hf

from headscope.models.mask_seam import WordMask, bool_mask, float_mask, in_words, read_mask

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
    mask = torch.tensor([[0.0, lowest, 0.5], [float("-inf"), -100.0, lowest + 1.0]])[None, None]
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
