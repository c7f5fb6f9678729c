"""Weights and activations that are NaN or infinite: which are named, and how many."""

from __future__ import annotations

import math

import pytest
import torch
from tests.runs.pretended_gpu import NamingGPU, on_gpu
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from headscope.errors import InputError, ModelError
from headscope.models.finite import HELD, Extremes, PassCheck, deferred_checks, finish, refuse_non_finite_weights


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
    extremes.hold("half", torch.tensor([0.5], dtype=torch.float16))
    extremes.add("nan", torch.tensor([5.0, math.nan]))
    extremes.add("empty", torch.zeros(0))
    extremes.add("whole", torch.tensor([9]))
    extremes.add("meta", torch.zeros(2, device="meta"))
    found = extremes.read()
    assert math.isnan(found.pop("nan"))
    assert found == {"one": 3.0, "half": 0.5}
    assert Extremes().read() == {}


def test_tensors_that_were_held_are_read_with_the_others() -> None:
    extremes = Extremes()
    extremes._held = [("a", torch.tensor([[1.0, -4.0]])), ("b", torch.tensor([[2.0, 3.0]])), ("c", torch.tensor([7.0]))]
    assert extremes.read() == {"a": 4.0, "b": 3.0, "c": 7.0}
    assert (extremes._held, extremes._bytes) == ([], 0)


def on_a_gpu(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that has a shape, a type and a device, and no numbers."""
    with FakeTensorMode():
        return torch.empty(*shape, dtype=dtype, device="cuda")


def test_small_tensors_on_a_gpu_are_held_until_they_fill_16_mib() -> None:
    extremes = Extremes()
    extremes.hold("first", on_a_gpu(2**20, 2))
    extremes.hold("second", on_a_gpu(2**21 - 2))
    extremes.hold("none", on_a_gpu(0))
    extremes.hold("whole", on_a_gpu(1, dtype=torch.int64))
    extremes.hold("third", on_a_gpu(2))
    assert [name for name, _ in extremes._held] == ["first", "second", "third"]
    assert (extremes._bytes, HELD) == (2**24, 2**24)
    assert list(extremes.values) == ["first", "second", "third"], "in the order of the pass"
    extremes.hold("fourth", on_a_gpu(1))
    assert len(extremes._held) == 3
    assert len(extremes.values["fourth"]) == 2, "the least and the largest, at once"


def test_tensors_on_a_cpu_are_not_held() -> None:
    extremes = Extremes()
    extremes.hold("one", torch.tensor([1.0, -3.0]))
    assert (extremes._held, extremes._bytes) == ([], 0)
    assert extremes.read() == {"one": 3.0}


def test_nothing_is_fetched_where_nothing_is_on_a_gpu() -> None:
    check = PassCheck("a model")
    assert check.fetch() == set()
    check.z._held = [("0", torch.tensor([[2.0, -3.0]]))]
    check.see_logits(torch.tensor([5.0, 7.0]))
    assert check.fetch() == set()
    assert check.z._held == []
    assert check.z.read() == {"0": 3.0}
    assert float(torch.as_tensor(check.logits)) == 7.0


def test_logits_are_fetched_from_their_gpu() -> None:
    check = PassCheck("a model", logits=on_a_gpu(1))
    assert {device.type for device in check.fetch()} == {"cuda"}
    assert torch.as_tensor(check.logits).device.type == "cpu"


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


def test_rows_that_attend_to_nothing_are_no_large_scores() -> None:
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


def test_values_are_fetched_from_every_gpu_and_read_in_their_places() -> None:
    check = PassCheck("a model")
    values = {"0": [(0, 1.0), (1, -4.0)], "1": [(1, 2.0)], "2": [(0, 7.0), (0, math.nan)]}
    check.z.values = {name: [on_gpu(gpu, torch.tensor(x), NamingGPU) for gpu, x in own] for name, own in values.items()}
    check.z.values["host"] = [torch.tensor(3.0, dtype=torch.float64)]
    check.logsumexp.values = {"0": [on_gpu(3, torch.tensor(9.0), NamingGPU)]}
    check.logits = on_gpu(2, torch.tensor(5.0), NamingGPU)
    assert check.fetch() == {torch.device("cuda", number) for number in range(4)}
    assert check.logsumexp.values["0"][0].device.type == "cpu"
    assert {value.device.type for own in check.z.values.values() for value in own} == {"cpu"}
    found = check.z.read()
    assert math.isnan(found.pop("2"))
    assert found == {"0": 4.0, "1": 2.0, "host": 3.0}
    with pytest.raises(ModelError, match="the attention output of site 2 is NaN"):
        check.verify()
