"""How a module is called: tensors by name, numbers as numbers, and everything else as it was given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headscope.models.any_torch.arguments import IDS, Arguments, FunctionInputs, bind, doubled

X, Y, TOKENS = torch.randn(1, 3), torch.randn(1, 4), torch.tensor([[3, 1, 4]])


class Told(nn.Module):
    """Returns what it was called with."""

    def forward(self, x: Any, y: Any = None, scale: Any = 1, *, flag: Any = False) -> Any:
        return {"x": x, "y": y, "scale": scale, "flag": flag}


class ToldNothing(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ({"idx": TOKENS}, "idx"),
        ({"idx": TOKENS.int()}, "idx"),
        ({"idx": TOKENS.to(torch.int16)}, None),
        ({"mask": TOKENS.bool()}, None),
        ({"x": X}, None),
        ({"step": torch.tensor([3]), "idx": TOKENS}, "idx"),
        ({"grid": TOKENS[None], "idx": TOKENS}, "idx"),
        ({"one": TOKENS, "two": TOKENS}, "one"),
        ({"decoder_input_ids": TOKENS, "idx": TOKENS}, "idx"),
        ({"decoder_input_ids": TOKENS}, None),
        ({}, None),
    ],
)
def test_token_ids_are_the_first_integers_by_text_and_position(tensors: dict[str, Tensor], found: str | None) -> None:
    assert Arguments(tensors).ids == found


@pytest.mark.parametrize(
    ("other", "copy"),
    [
        (TOKENS.clone(), True),
        (TOKENS + 1, False),
        (TOKENS[:, :2], False),
        (TOKENS.float(), True),
    ],
)
def test_the_same_ids_under_another_name_are_a_copy(other: Tensor, copy: bool) -> None:
    given = Arguments({"idx": TOKENS, "targets": other, "x": X})
    assert given.copies_of_ids == (("targets",) if copy else ())
    assert list(given.named()) == [IDS, "x"] if copy else [IDS, "targets", "x"]
    assert Arguments({"x": X, "y": X}).copies_of_ids == ()
    assert list(Arguments({"x": X, "y": X}).named()) == ["x", "y"]


def test_a_number_reaches_the_module_as_a_number() -> None:
    given = bind(Told(), {"x": X, "scale": 3, "flag": True})
    assert given.call(Told(), {"x": Y})["scale"] == 3
    seen = given.call(Told(), {"x": Y, "scale": torch.tensor([[7.5]])})
    assert torch.equal(seen["x"], Y)
    assert seen["x"] is not Y, "it may be written to"
    assert (seen["scale"], seen["flag"]) == (7.5, True)
    assert type(seen["scale"]) is float
    with_ids = bind(Told(), {"x": TOKENS}).call(Told(), {IDS: TOKENS, "y": torch.tensor([[7.5]])})
    assert isinstance(with_ids["y"], Tensor), "it was no number when the module was opened"


def test_a_function_is_called_with_the_module_where_it_takes_one() -> None:
    module = Told()
    for function, seen in ((lambda: "none", "none"), (lambda given: given is module, True)):
        assert Arguments(function=function).call(module, {}) == seen
        assert Arguments().call(module, FunctionInputs(function)) == seen
    assert Arguments(function=type).call(module, {}) is Told, "a signature that cannot be read"


def test_a_function_is_stopped_before_the_module_runs() -> None:
    ran = []
    module = ToldNothing()
    module.register_forward_hook(lambda *_: ran.append("module"))
    bind(module, lambda: ran.append(module(X)))
    assert ran == []
    assert not module._forward_pre_hooks


@pytest.mark.parametrize(
    ("tensors", "shapes"),
    [
        ({"x": X, "y": Y}, {"x": (2, 3), "y": (2, 4)}),
        ({"x": X, "time": torch.tensor(3)}, {"x": (2, 3), "time": ()}),
        ({"x": X, "y": torch.randn(2, 4)}, None),
        ({"x": torch.randn(2, 3)}, None),
        ({"x": torch.randn(0, 3)}, None),
        ({}, None),
    ],
)
def test_a_batch_of_one_is_doubled(tensors: dict[str, Tensor], shapes: Any) -> None:
    twice = doubled(Arguments(tensors, {"scale": 2}))
    assert (twice is None) == (shapes is None)
    if twice is not None:
        assert {name: tuple(t.shape) for name, t in twice.tensors.items()} == shapes
        assert torch.equal(twice.tensors["x"], torch.cat((X, X)))
        assert twice.others == {"scale": 2}
    assert doubled(Arguments({"x": X}, function=print)) is None
