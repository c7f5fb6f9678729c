"""Equal weights hash equally however they lie in memory; any other name, type, shape or number changes the hash."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest
import torch
from tests.models import tiny

from headscope.errors import ModelError
from headscope.models.weight_hash import weight_hash


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


def hashed(*lines: bytes) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()


class Extra(torch.nn.Module):
    """A state that is no tensor, as quantised layers have."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def get_extra_state(self) -> Any:
        return self.state


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantised_weights_count_by_their_bytes_and_their_values() -> None:
    whole = torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.5, 0, torch.qint8)
    said = b"w torch.int8 (2,)\n\x01\xfew unpacked torch.float32 (2,)\n\x00\x00\x00?\x00\x00\x80\xbf"
    assert weight_hash(Holder(w=whole)) == hashed(said)


class Packed(torch.Tensor):
    """A tensor that consists of two others, as torchao's do."""

    one: torch.Tensor
    two: torch.Tensor

    @staticmethod
    def __new__(cls, one: torch.Tensor, two: torch.Tensor) -> Packed:
        made: Packed = torch.Tensor._make_wrapper_subclass(cls, (5,))
        made.one, made.two = one, two
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["one", "two"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if "detach" in str(func) else func(*args, **(kwargs or {}))


def test_a_tensor_of_several_counts_by_its_parts() -> None:
    one, two = torch.tensor([1], dtype=torch.uint8), torch.tensor([2], dtype=torch.uint8)
    said = b"w.one torch.uint8 (1,)\n\x01w.two torch.uint8 (1,)\n\x02"
    assert weight_hash(Holder(w=Packed(one, two))) == hashed(said)


class Hook:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def offloaded(hook: Any) -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False, device="meta"))
    if hook is not None:
        model[0]._hf_hook = hook
    return model


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("as_array", [False, True])
def test_offloaded_weights_count_as_if_they_were_there(chained: bool, as_array: bool) -> None:
    weight = torch.tensor([[0.5]])
    hook = Hook(weights_map={"weight": weight.numpy() if as_array else weight})
    model = offloaded(Hook(hooks=[Hook(), hook]) if chained else hook)
    assert weight_hash(model) == hashed(b"0.weight torch.float32 (1, 1)\n\x00\x00\x00?")


@pytest.mark.parametrize("hook", [None, Hook(), Hook(hooks=[Hook()])], ids=["none", "other", "others"])
def test_weights_that_are_nowhere_are_refused(hook: Any) -> None:
    with pytest.raises(ModelError, match=r"0.weight is only on the meta device; load the model's weights first"):
        weight_hash(offloaded(hook))
