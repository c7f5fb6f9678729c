"""The same weights have the same letters, whatever holds them; other weights have others."""

from __future__ import annotations

import copy
import hashlib

import torch
from tests.models import tiny

from headscope.models.weight_hash import fingerprint


class Two(torch.nn.Module):
    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Parameter(first), torch.nn.Parameter(second)


def test_it_is_the_sha256_of_names_shapes_and_numbers() -> None:
    model = Two(torch.tensor([[1.0, -2.0]]), torch.tensor([0.5]))
    said = b"first (1, 2)" + b"\x00\x00\x80?\x00\x00\x00\xc0" + b"second (1,)" + b"\x00\x00\x00?"
    assert fingerprint(model) == hashlib.sha256(said).hexdigest()


def test_precision_that_holds_the_numbers_does_not_matter() -> None:
    model = tiny.llama().to(torch.bfloat16)
    assert fingerprint(model) == fingerprint(copy.deepcopy(model).float()) == fingerprint(copy.deepcopy(model).double())


def test_one_changed_weight_changes_it() -> None:
    model = tiny.llama()
    before = fingerprint(model)
    assert fingerprint(tiny.llama()) == before
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[3, 5] += 1e-6
    assert fingerprint(model) != before


def test_the_same_numbers_in_another_shape_or_place_are_other_weights() -> None:
    a, b = torch.arange(4.0), torch.zeros(4)
    assert fingerprint(Two(a, b)) != fingerprint(Two(b, a))
    assert fingerprint(Two(a, b)) != fingerprint(Two(a.view(2, 2), b))


def test_how_weights_lie_in_memory_does_not_matter() -> None:
    table = torch.randn(3, 5)
    turned = table.T.contiguous().T
    assert not turned.is_contiguous()
    assert fingerprint(Two(table, table[0])) == fingerprint(Two(turned, table[0]))
