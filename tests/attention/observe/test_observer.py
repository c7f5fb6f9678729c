"""Observers see every call, may change it, and are seen by nobody but their own context."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.observer import Call, current, plain, watched, watching
from headscope.attention.rope import Rope
from headscope.attention.scores import Scores


def test_an_observer_is_told_what_the_module_computes() -> None:
    module, x, mask = MultiHeadAttention(16, 4, 2, rope=Rope(4)), torch.randn(2, 5, 16), causal()
    calls: list[Call] = []

    def look(call: Call) -> Tensor:
        calls.append(call)
        return plain(call)

    expected = module(x, mask=mask)
    with watching(look):
        assert watched()
        assert_close(module(x, mask=mask), expected)
    assert not watched()
    module(x)
    (call,) = calls
    assert call.site is module
    assert call.scores.mask is mask
    assert call.scores.scale == 0.5
    for seen, own in zip((call.q, call.k, call.v), module.project(x), strict=True):
        assert torch.equal(seen, own)


def test_dropout_is_told_in_training_alone() -> None:
    module, told = MultiHeadAttention(16, 4, dropout=0.3), []

    def look(call: Call) -> Tensor:
        told.append(call.dropout)
        return plain(call)

    with watching(look):
        module(torch.randn(1, 3, 16))
        module.eval()(torch.randn(1, 3, 16))
    assert told == [0.3, 0.0]


def test_what_an_observer_answers_is_what_the_heads_deliver() -> None:
    """Silencing head 2 takes away exactly its part."""
    module, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)

    def silence(call: Call) -> Tensor:
        z = plain(call).clone()
        z[:, 2] = 0
        return z

    output, parts = module.by_head(x)
    with watching(silence):
        assert_close(module(x), output - parts[:, 2])
        assert (module.by_head(x).parts[:, 2] == 0).all()


def test_observers_nest_and_are_left_behind_after_an_error() -> None:
    def outer(call: Call) -> Tensor:
        return plain(call)

    def inner(call: Call) -> Tensor:
        raise RuntimeError("inside")

    with watching(outer):
        with pytest.raises(RuntimeError, match="inside"), watching(inner):
            MultiHeadAttention(8, 2)(torch.randn(1, 2, 8))
        assert current() is outer
        with watching(None):
            assert not watched()
    assert current() is None


def test_another_thread_is_not_watched() -> None:
    seen: list[bool] = []
    with watching(plain):
        thread = threading.Thread(target=lambda: seen.append(watched()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_an_unobserved_answer_drops_what_the_call_says() -> None:
    """With equal scores and values of one, an answer other than one has weights dropped."""
    q, k = torch.zeros(1, 2, 40, 4), torch.ones(1, 2, 40, 4)
    for dropout in (0.0, 0.5):
        z = plain(Call(torch.nn.Module(), q, k, k, Scores(mask=causal()), dropout))
        assert bool((z == 1).all()) == (dropout == 0.0)
