"""Equal weights hash equally however they lie in memory; any other name, type, shape or number changes the hash."""

from __future__ import annotations

import copy
import hashlib

import torch
from tests.models import tiny

from headscope.models.weight_hash import hashing, weight_hash


class Holder(torch.nn.Module):
    def __init__(self, **values: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in values.items():
            self.register_buffer(name, tensor)


def test_it_is_the_sha256_of_names_types_shapes_and_bytes() -> None:
    model = Holder(second=torch.tensor([0.5]), first=torch.tensor([[1.0, -2.0]]))
    said = b"first torch.float32 (1, 2)\n\x00\x00\x80?\x00\x00\x00\xc0second torch.float32 (1,)\n\x00\x00\x00?"
    assert weight_hash(model) == hashlib.sha256(said).hexdigest()


def test_the_last_bit_of_one_weight_changes_it() -> None:
    model = tiny.llama()
    before = weight_hash(model)
    assert weight_hash(tiny.llama()) == before
    weight = model.model.layers[1].self_attn.o_proj.weight
    with torch.no_grad():
        weight[3, 5] = torch.nextafter(weight[3, 5], torch.tensor(9.0))
    assert weight_hash(model) != before


def test_names_types_and_shapes_change_it() -> None:
    base = torch.zeros(4, 2)
    models = [
        Holder(a=base), Holder(b=base), Holder(a=base.view(2, 4)), Holder(a=base.view(torch.int32)),
        Holder(a=base.bfloat16()), Holder(a=torch.zeros(0)), Holder(a=torch.zeros(8, dtype=torch.bool)),
        Holder(a=base, b=base + 1), Holder(a=base + 1, b=base),
    ]  # fmt: skip
    assert len({weight_hash(model) for model in models}) == len(models)


def test_weights_in_half_precision_are_identified_by_their_hash_in_float32() -> None:
    model = tiny.llama().to(torch.bfloat16)
    wide = copy.deepcopy(model).float()
    assert weight_hash(model) != weight_hash(wide) == weight_hash(wide, torch.float32)
    assert weight_hash(model, torch.float32) == weight_hash(wide)
    counted = Holder(n=torch.tensor([3]))
    assert weight_hash(counted, torch.float32) == weight_hash(counted)


def test_memory_layout_does_not_change_it() -> None:
    table = torch.randn(3, 5)
    transposed = table.T.contiguous().T
    assert not transposed.is_contiguous()
    assert weight_hash(Holder(a=table)) == weight_hash(Holder(a=transposed))


def test_a_hash_in_the_background_is_the_same() -> None:
    with hashing(tiny.llama()) as pending:
        assert pending.result() == weight_hash(tiny.llama())
