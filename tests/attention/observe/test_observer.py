"""Observers receive every attention call, may change z, and are visible in their own context alone."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, current, observing, plain
from headscope.attention.rope import Rope


def test_an_observer_receives_what_the_module_computes() -> None:
    module, x, mask = MultiHeadAttention(16, 4, 2, rope=Rope(4)), torch.randn(2, 5, 16), causal()
    calls: list[Call] = []

    def look(call: Call) -> Tensor:
        calls.append(call)
        return plain(call)

    expected = module(x, mask=mask)
    with observing(look):
        assert current() is look
        assert_close(module(x, mask=mask), expected)
    assert current() is None
    module(x)
    (call,) = calls
    assert call.site is module
    assert call.scores.mask is mask
    assert call.scores.scale == 0.5
    for seen, own in zip((call.q, call.k, call.v), module.project(x), strict=True):
        assert torch.equal(seen, own)


def test_a_call_has_dropout_in_training_alone() -> None:
    module, dropouts = MultiHeadAttention(16, 4, dropout=0.3), []

    def look(call: Call) -> Tensor:
        dropouts.append(call.dropout)
        return plain(call)

    with observing(look):
        module(torch.randn(1, 3, 16))
        module.eval()(torch.randn(1, 3, 16))
    assert dropouts == [0.3, 0.0]


def test_the_model_goes_on_with_the_z_that_the_observer_returns() -> None:
    """Setting z of head 2 to zero takes away exactly its part of the output."""
    module, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)

    def ablate(call: Call) -> Tensor:
        z = plain(call).clone()
        z[:, 2] = 0
        return z

    output, parts = module.by_head(x)
    with observing(ablate):
        assert_close(module(x), output - parts[:, 2])
        assert (module.by_head(x).parts[:, 2] == 0).all()


def test_observers_nest_and_are_restored_after_an_error() -> None:
    def outer(call: Call) -> Tensor:
        return plain(call)

    def inner(call: Call) -> Tensor:
        raise RuntimeError("inside")

    with observing(outer):
        with pytest.raises(RuntimeError, match="inside"), observing(inner):
            MultiHeadAttention(8, 2)(torch.randn(1, 2, 8))
        assert current() is outer
        with observing(None):
            assert current() is None
    assert current() is None


def test_another_thread_has_no_observer() -> None:
    seen: list[object] = []
    with observing(plain):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [None]
