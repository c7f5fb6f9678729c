"""Shuffled weights: the same numbers in another order, and restored bit by bit afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headscope.heads.roles.run import shuffled_weights
from headscope.models.recording import OpenModel
from headscope.scope import Scope


def weights(model: OpenModel) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.model.named_parameters()}


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_every_matrix_is_shuffled_and_nothing_else(scope: Scope) -> None:
    before = weights(scope.model)
    with shuffled_weights(scope.model, 0):
        inside = weights(scope.model)
    matrices = {name for name, weight in before.items() if weight.ndim >= 2}
    assert matrices
    assert matrices != set(before), "norms are vectors, and stay"
    for name, weight in before.items():
        assert torch.equal(inside[name], weight) == (name not in matrices)
        assert torch.equal(inside[name].flatten().sort().values, weight.flatten().sort().values), "the same numbers"
    assert same_bits(weights(scope.model), before)


def test_the_logits_change_inside_and_are_as_before_outside(scope: Scope, ids: list[int]) -> None:
    with torch.no_grad():
        inputs = scope.model.prepare(ids).inputs
        before = scope.model.run(inputs).logits
        with shuffled_weights(scope.model, 0):
            inside = scope.model.run(inputs).logits
        after = scope.model.run(inputs).logits
    assert torch.equal(before, after)
    assert float((inside - before).abs().max()) > 0.1


def test_weights_are_restored_after_an_error(llama: Scope) -> None:
    before = weights(llama.model)
    with pytest.raises(ZeroDivisionError), shuffled_weights(llama.model, 0):
        _ = 1 / 0
    assert same_bits(weights(llama.model), before)


def test_weights_are_restored_after_ctrl_c_while_shuffling(llama: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    before, shuffle, done = weights(llama.model), torch.randperm, 0

    def impatient(*given: int, **also: object) -> Tensor:
        nonlocal done
        done += 1
        if done == 4:
            raise KeyboardInterrupt
        return shuffle(*given, **also)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(torch, "randperm", impatient)
    with pytest.raises(KeyboardInterrupt), shuffled_weights(llama.model, 0):
        raise AssertionError("it was stopped before")
    assert same_bits(weights(llama.model), before)


def test_a_weight_that_two_modules_share_is_shuffled_once(llama: Scope) -> None:
    model: Any = llama.model.model
    model.lm_head.weight = model.model.embed_tokens.weight
    before = model.model.embed_tokens.weight.detach().clone()
    with shuffled_weights(llama.model, 0):
        inside = model.lm_head.weight.detach().clone()
        assert torch.equal(inside, model.model.embed_tokens.weight)
    assert not torch.equal(inside, before)
    assert torch.equal(model.lm_head.weight, before)


def test_half_precision_comes_back_bit_for_bit(llama: Scope) -> None:
    llama.model.model.to(torch.bfloat16)
    before = weights(llama.model)
    with shuffled_weights(llama.model, 3):
        assert all(weight.dtype == torch.bfloat16 for weight in llama.model.model.parameters())
    assert same_bits(weights(llama.model), before)
