"""Weights and activations that are NaN or infinite: which are named, and how many."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from headscope.errors import InputError, ModelError
from headscope.models.finite import Extremes, PassCheck, deferred_checks, finish, refuse_non_finite_weights


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (1, "0.weight. Nothing"),
        (4, "2.weight and 1 more. Nothing"),
        (3, "0.weight, 1.weight, 2.weight. Nothing"),
        (5, "2.weight and 2 more. Nothing"),
    ],
)
def test_the_first_bad_weights_are_named_and_the_others_counted(bad: int, named: str) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(6)))
    refuse_non_finite_weights(model)
    for number in range(bad):
        model[number].weight.data[0, 0] = math.nan if number % 2 else -math.inf
    with pytest.raises(ModelError, match=f"weights that are NaN or infinite: .*{named}"):
        refuse_non_finite_weights(model)


def test_the_extreme_of_a_tensor_is_its_largest_absolute_value() -> None:
    extremes = Extremes()
    extremes.add("one", torch.tensor([1.0, -3.0, 2.0]))
    extremes.add("one", torch.tensor([2.5]))
    extremes.add("half", torch.tensor([0.5], dtype=torch.float16))
    extremes.add("nan", torch.tensor([5.0, math.nan]))
    extremes.add("empty", torch.zeros(0))
    extremes.add("whole", torch.tensor([9]))
    extremes.add("meta", torch.zeros(2, device="meta"))
    found = extremes.read()
    assert math.isnan(found.pop("nan"))
    assert found == {"one": 3.0, "half": 0.5}
    assert Extremes().read() == {}


@pytest.mark.parametrize("logits", [torch.zeros(0), torch.tensor([3]), torch.zeros(2, device="meta")], ids=str)
def test_logits_without_real_numbers_are_not_kept(logits: torch.Tensor) -> None:
    check = PassCheck("a model")
    check.see_logits(logits)
    assert check.logits is None


@pytest.mark.parametrize(
    ("logits", "refused"),
    [([1.0, -math.inf], None), ([1.0, math.inf], "infinite"), ([math.nan, 0.0], "NaN"), ([-math.inf] * 2, "infinite")],
)
def test_logits_may_rule_tokens_out_and_are_numbers_otherwise(logits: list[float], refused: str | None) -> None:
    check = PassCheck("a model")
    check.see_logits(torch.tensor(logits))
    if refused is None:
        check.verify()
    else:
        with pytest.raises(ModelError, match=f"a model: its logits are {refused} for this input"):
            check.verify()


def test_rows_that_attend_to_nothing_are_not_large_scores() -> None:
    check = PassCheck("a model")
    check.see_logsumexp(["0", "1"], torch.tensor([[[-math.inf, 2.0]], [[-30.0, 4.0]]]))
    assert check.logsumexp.read() == {"0": 2.0, "1": 30.0}
    check.verify()
    check.see_logsumexp(["1"], torch.tensor([[[1e9]]]))
    with pytest.raises(InputError, match="a model, site 1: attention scores reach"):
        check.verify()


def test_the_site_whose_output_is_not_finite_is_named() -> None:
    check = PassCheck("a model")
    check.z.add("0", torch.ones(2))
    check.z.add("1", torch.tensor([1.0, math.inf]))
    with pytest.raises(ModelError, match="the attention output of site 1 is infinite for this input"):
        finish(check)
    with deferred_checks() as pending:
        finish(check)
    assert pending == [check]
    with pytest.raises(ModelError, match="the attention output of site 1 is infinite for this input"):
        finish(check)
