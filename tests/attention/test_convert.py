"""A module equals its single heads, and PyTorch's module with the same weights."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headscope.attention.masks import causal
from headscope.attention.module import MultiHeadAttention
from headscope.attention.rope import Rope
from headscope.errors import ShapeError

MODULES: dict[str, Callable[[], MultiHeadAttention]] = {
    "plain": lambda: MultiHeadAttention(16, 4),
    "biased": lambda: MultiHeadAttention(16, 4, bias=True),
    "bare": lambda: MultiHeadAttention(16, 4, out_bias=False),
    "grouped": lambda: MultiHeadAttention(16, 4, 2, bias=True),
    "multi-query": lambda: MultiHeadAttention(16, 4, 1, d_head=5),
    "rope": lambda: MultiHeadAttention(16, 4, rope=Rope(4)),
    "normed": lambda: MultiHeadAttention(16, 4, 2, qk_norm=True),
    "cross": lambda: MultiHeadAttention(16, 4, d_context=12),
}


def parameters_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("name", MODULES)
def test_single_heads_add_up_to_the_module(name: str) -> None:
    module = MODULES[name]().double()
    x = torch.randn(2, 7, 16).double()
    context = torch.randn(2, 3, 12).double() if name == "cross" else None
    heads = module.split()
    assert [head.n_heads for head in heads] == [1] * 4
    assert_close(torch.stack([head(x, context) for head in heads]).sum(0), module(x, context))


@pytest.mark.parametrize("name", MODULES)
def test_splitting_and_combining_gives_the_same_module(name: str) -> None:
    module = MODULES[name]().bfloat16().eval()
    if module.q_norm is not None and module.k_norm is not None:
        nn.init.normal_(module.q_norm.weight)
        nn.init.normal_(module.k_norm.weight)
    again = MultiHeadAttention.from_heads(module.split(), n_kv_heads=module.n_kv_heads)
    assert_close(parameters_of(again), parameters_of(module), rtol=0, atol=0)
    assert not again.training


def test_separate_heads_combine_into_one_module() -> None:
    """Their W_O biases add up, as their outputs do."""
    heads = [MultiHeadAttention(12, 1, d_head=3, bias=True, rope=Rope(2)).double() for _ in range(5)]
    x = torch.randn(2, 6, 12).double()
    whole = MultiHeadAttention.from_heads(heads)
    assert (whole.n_heads, whole.d_head) == (5, 3)
    assert_close(whole(x, mask=causal()), torch.stack([head(x, mask=causal()) for head in heads]).sum(0))


def torch_modules() -> dict[str, nn.MultiheadAttention]:
    made = {
        "plain": nn.MultiheadAttention(16, 4, batch_first=True),
        "bare": nn.MultiheadAttention(16, 4, bias=False),
        "cross": nn.MultiheadAttention(16, 4, kdim=12, vdim=12, batch_first=True),
        "dropping": nn.MultiheadAttention(16, 2, dropout=0.2, batch_first=True).eval(),
        "bfloat16": nn.MultiheadAttention(16, 4, batch_first=True).bfloat16(),
    }
    for theirs in made.values():
        if theirs.in_proj_bias is not None:
            nn.init.normal_(theirs.in_proj_bias)
            nn.init.normal_(theirs.out_proj.bias)
    return made


@pytest.mark.parametrize("name", ["plain", "bare", "cross", "dropping", "bfloat16"])
def test_pytorch_s_module_and_back_is_exact(name: str) -> None:
    theirs = torch_modules()[name]
    dtype = theirs.out_proj.weight.dtype
    x = torch.randn(2, 7, 16).to(dtype)
    context = torch.randn(2, 9, 12) if name == "cross" else x
    ours = MultiHeadAttention.from_torch(theirs)
    assert (ours.dropout, ours.training) == (theirs.dropout, theirs.training)
    swap = (lambda tensor: tensor) if theirs.batch_first else (lambda tensor: tensor.transpose(0, 1))
    expected = swap(theirs(swap(x), swap(context), swap(context), need_weights=False)[0])
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-6  # one product or three: the rounding differs
    assert_close(ours(x, context if name == "cross" else None), expected, atol=tolerance, rtol=tolerance)
    back = ours.to_torch()
    assert_close(parameters_of(back), parameters_of(theirs), rtol=0, atol=0)
    assert (back.dropout, back.training) == (theirs.dropout, theirs.training)


def test_patterns_equal_pytorch_s() -> None:
    ours, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    assert_close(ours.patterns(x), ours.to_torch()(x, x, x, average_attn_weights=False)[1])


def test_the_table_of_a_small_module() -> None:
    module = MultiHeadAttention(128, 4)
    table = module.parameter_table()
    assert sum(table[name].parameters for name in ("W_Q", "W_K", "W_V")) == 49_152
    assert table["W_O"].parameters == 16_512
    assert table.total == 65_664 == sum(parameter.numel() for parameter in module.parameters())
    assert module(torch.randn(1, 3, 128)).shape == (1, 3, 128)
    assert str(table).splitlines() == [
        "matrix           shape       weights     bias      together",
        "W_Q          128 × 128        16,384        –        16,384",
        "W_K          128 × 128        16,384        –        16,384",
        "W_V          128 × 128        16,384        –        16,384",
        "W_O          128 × 128        16,384      128        16,512",
        "total                                                65,664",
    ]


def one(**changes: object) -> MultiHeadAttention:
    return MultiHeadAttention(**{"d_model": 12, "n_heads": 1, "d_head": 4, **changes})


def with_other(name: str, head: MultiHeadAttention) -> MultiHeadAttention:
    """The same head, but for one tensor of it."""
    other = copy.deepcopy(head)
    nn.init.normal_(other.get_parameter(name))
    return other


def two(name: str, **changes: object) -> list[MultiHeadAttention]:
    """A head, and the same with another ``name``."""
    head = one(**changes)
    return [head, with_other(name, head)]


from_heads, from_torch = MultiHeadAttention.from_heads, MultiHeadAttention.from_torch

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "none": (lambda: from_heads([]), "from_heads got no heads; give at least one module with n_heads=1"),
    "several": (lambda: from_heads([MultiHeadAttention(12, 3)]), "module 0 has 3 heads; split() it first"),
    "d-head": (
        lambda: from_heads([one(), one(d_head=3)]),
        "head 1 has d_head=3 and head 0 has d_head=4; build all heads with the same options",
    ),
    "rope": (lambda: from_heads([one(), one(rope=Rope(2))]), "head 1 has rope=Rope(d_rotary=2"),
    "bias": (lambda: from_heads([one(), one(bias=True)]), "head 1 has bias=True and head 0 has bias=False"),
    "d-model": (lambda: from_heads([one(), one(d_model=8)]), "head 1 has d_model=8 and head 0 has d_model=12"),
    "d-context": (lambda: from_heads([one(), one(d_context=8)]), "head 1 has d_context=8 and head 0 has d_context=12"),
    "dropout": (lambda: from_heads([one(), one(dropout=0.1)]), "head 1 has dropout=0.1 and head 0 has dropout=0.0"),
    "norm-or-none": (lambda: from_heads([one(), one(qk_norm=True)]), "head 1 has qk_norm=True and head 0 has qk_norm="),
    "q-norm": (lambda: from_heads(two("q_norm.weight", qk_norm=True)), "heads 0 and 1 share q_norm.weight, but theirs"),
    "k-norm": (lambda: from_heads(two("k_norm.weight", qk_norm=True)), "heads 0 and 1 share k_norm.weight, but theirs"),
    "groups": (lambda: from_heads([one(), one(), one()], n_kv_heads=2), "n_heads=3 is not a multiple of n_kv_heads=2"),
    "keys": (lambda: from_heads([one(), one()], n_kv_heads=1), "heads 0 and 1 share k_proj.weight, but theirs"),
    "values": (
        lambda: from_heads(two("v_proj.weight"), n_kv_heads=1),
        "with n_kv_heads=1, heads 0 and 1 share v_proj.weight, but theirs differ; make them equal",
    ),
    "key-bias": (
        lambda: from_heads(two("k_proj.bias", bias=True), n_kv_heads=1),
        "with n_kv_heads=1, heads 0 and 1 share k_proj.bias, but theirs differ",
    ),
    "second group": (
        lambda: from_heads([*two("q_proj.weight"), *two("k_proj.weight")], n_kv_heads=2),
        "with n_kv_heads=2, heads 2 and 3 share k_proj.weight, but theirs differ",
    ),
    "bias-kv": (lambda: from_torch(nn.MultiheadAttention(16, 4, add_bias_kv=True)), "add_bias_kv=True appends a"),
    "zero": (lambda: from_torch(nn.MultiheadAttention(16, 4, add_zero_attn=True)), "add_zero_attn=True appends a key"),
    "kdim": (lambda: from_torch(nn.MultiheadAttention(16, 4, kdim=8, vdim=9)), "kdim=8 and vdim=9 differ; here"),
    "to-grouped": (lambda: MODULES["grouped"]().to_torch(), "has no n_kv_heads=2 shared by n_heads=4; it cannot hold"),
    "to-odd": (lambda: one().to_torch(), "has no 1 heads of 4 in width 12; it cannot hold"),
    "to-rope": (lambda: MODULES["rope"]().to_torch(), "torch.nn.MultiheadAttention has no RoPE; it cannot hold this"),
    "to-normed": (lambda: MultiHeadAttention(16, 4, qk_norm=True).to_torch(), "has no QK-norm; it cannot hold"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_converted_is_refused_with_its_values(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ShapeError, match=re.escape(message)):
        make()
