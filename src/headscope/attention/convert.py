"""Convert a MultiHeadAttention to and from single heads and ``torch.nn.MultiheadAttention``; count its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import headscope.attention.module as mha
from headscope.errors import ShapeError


def split(module: mha.MultiHeadAttention) -> list[mha.MultiHeadAttention]:
    """Return every head as a separate module. Their outputs add up to the module's; the first has W_O's bias.

    Heads that share keys and values each get a copy of them.
    """
    return [_single_head(module, head) for head in range(module.n_heads)]


@torch.no_grad()
def from_heads(heads: Sequence[mha.MultiHeadAttention], n_kv_heads: int | None = None) -> mha.MultiHeadAttention:
    """Combine single heads into one batched module whose output is the sum of theirs.

    With ``n_kv_heads``, heads of one group must have the same keys and values, and share them.
    """
    _check_options(heads)
    n_kv_heads = len(heads) if n_kv_heads is None else n_kv_heads
    out_bias = any(head.o_proj.bias is not None for head in heads)
    whole = like(heads[0], n_heads=len(heads), n_kv_heads=n_kv_heads, out_bias=out_bias)
    group = len(heads) // n_kv_heads
    _check_shared(heads, group)
    for name, parameter in whole.named_parameters():
        sources = heads[::group] if name.startswith(("k_proj", "v_proj")) else heads
        parts: list[Tensor] = [part for source in sources for each, part in source.named_parameters() if each == name]
        if name == "o_proj.bias":
            parameter.copy_(torch.stack(parts).sum(0))
        elif "norm" in name:
            parameter.copy_(parts[0])
        else:
            parameter.copy_(torch.cat(parts, dim=int(name == "o_proj.weight")))
    return whole


@torch.no_grad()
def from_torch(theirs: nn.MultiheadAttention) -> mha.MultiHeadAttention:
    """Copy PyTorch's module. Ours always takes ``[batch, position, d_model]``, whatever theirs takes."""
    if theirs.bias_k is not None:
        raise ShapeError("add_bias_kv=True appends a learned key and value, which this module does not have")
    if theirs.add_zero_attn:
        raise ShapeError("add_zero_attn=True appends a key and value of zeros, which this module does not have")
    if theirs.kdim != theirs.vdim:
        raise ShapeError(f"kdim={theirs.kdim} and vdim={theirs.vdim} differ; here keys and values read one context")
    ours = mha.MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        bias=theirs.in_proj_bias is not None,
        out_bias=theirs.out_proj.bias is not None,
        dropout=theirs.dropout,
        d_context=theirs.kdim,
    ).to(theirs.out_proj.weight)
    for linear, weight, bias in _matrices(ours, theirs):
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return ours.train(theirs.training)


@torch.no_grad()
def to_torch(ours: mha.MultiHeadAttention) -> nn.MultiheadAttention:
    """Copy this module into a ``torch.nn.MultiheadAttention`` (batch first). A bias that only theirs has is zero."""
    for unsupported, what in (
        (ours.n_kv_heads != ours.n_heads, f"n_kv_heads={ours.n_kv_heads} shared by n_heads={ours.n_heads}"),
        (ours.n_heads * ours.d_head != ours.d_model, f"{ours.n_heads} heads of {ours.d_head} in width {ours.d_model}"),
        (ours.rope is not None, "RoPE"),
        (ours.q_norm is not None, "QK-norm"),
    ):
        if unsupported:
            raise ShapeError(f"torch.nn.MultiheadAttention has no {what}; it cannot hold this module")
    theirs = nn.MultiheadAttention(
        ours.d_model,
        ours.n_heads,
        dropout=ours.dropout,
        bias=any(linear.bias is not None for linear in (ours.q_proj, ours.o_proj)),
        kdim=ours.d_context,
        vdim=ours.d_context,
        batch_first=True,
    ).to(ours.o_proj.weight)
    for linear, weight, bias in _matrices(ours, theirs):
        weight.copy_(linear.weight)
        if bias is not None:
            bias.copy_(torch.zeros_like(bias) if linear.bias is None else linear.bias)
    return theirs.train(ours.training)


class _Matrix(NamedTuple):
    """One matrix of a module: its shape, input × output, and the parameters of its weight and bias."""

    name: str
    shape: tuple[int, ...]
    weights: int
    biases: int

    @property
    def parameters(self) -> int:
        return self.weights + self.biases


@dataclass(frozen=True)
class ParameterTable:
    """The parameter count of a module, matrix by matrix. ``print`` it."""

    matrices: tuple[_Matrix, ...]

    @property
    def total(self) -> int:
        return sum(matrix.parameters for matrix in self.matrices)

    def __getitem__(self, name: str) -> _Matrix:
        return {matrix.name: matrix for matrix in self.matrices}[name]

    def __str__(self) -> str:
        lines = [f"{'matrix':<8}{'shape':>14}{'weights':>14}{'bias':>9}{'together':>14}"]
        for name, shape, weights, biases in self.matrices:
            size = " × ".join(f"{width:,}" for width in shape)
            lines.append(f"{name:<8}{size:>14}{weights:>14,}{biases or '–':>9}{weights + biases:>14,}")
        return "\n".join([*lines, f"{'total':<45}{self.total:>14,}"])


def parameter_table(module: mha.MultiHeadAttention) -> ParameterTable:
    """Count the parameters of each matrix."""
    rows = []
    named = {"W_Q": module.q_proj, "W_K": module.k_proj, "W_V": module.v_proj, "W_O": module.o_proj}
    for name, linear in named.items():
        bias = 0 if linear.bias is None else linear.bias.numel()
        rows.append(_Matrix(name, (linear.in_features, linear.out_features), linear.weight.numel(), bias))
    for name, norm in (("q_norm", module.q_norm), ("k_norm", module.k_norm)):
        if norm is not None:
            rows.append(_Matrix(name, tuple(norm.weight.shape), norm.weight.numel(), 0))
    return ParameterTable(tuple(rows))


@torch.no_grad()
def _single_head(module: mha.MultiHeadAttention, head: int) -> mha.MultiHeadAttention:
    one = like(module, n_heads=1, n_kv_heads=1, out_bias=head == 0 and module.o_proj.bias is not None)
    kv, width = head // (module.n_heads // module.n_kv_heads), module.d_head
    query, key = slice(head * width, (head + 1) * width), slice(kv * width, (kv + 1) * width)
    own = {"q_proj": query, "k_proj": key, "v_proj": key}
    for name, parameter in one.named_parameters():
        whole = module.get_parameter(name)
        part = whole[:, query] if name == "o_proj.weight" else whole[own.get(name.split(".")[0], slice(None))]
        parameter.copy_(part)
    return one


def _options(module: mha.MultiHeadAttention) -> dict[str, Any]:
    """The arguments that a module was built with, except for its heads and the bias of W_O."""
    same = ("d_model", "d_head", "rope", "dropout", "d_context")
    optional = {"bias": module.q_proj.bias is not None, "qk_norm": module.q_norm is not None}
    return {name: getattr(module, name) for name in same} | optional


def like(module: mha.MultiHeadAttention, **heads: Any) -> mha.MultiHeadAttention:
    """Build a module with other heads and the same options, dtype and device."""
    return mha.MultiHeadAttention(**_options(module), **heads).to(module.o_proj.weight).train(module.training)


def _check_options(heads: Sequence[mha.MultiHeadAttention]) -> None:
    if not heads:
        raise ShapeError("from_heads got no heads; give at least one module with n_heads=1")
    first = _options(heads[0])
    for number, head in enumerate(heads):
        if head.n_heads != 1:
            raise ShapeError(f"from_heads: module {number} has {head.n_heads} heads; split() it first")
        for name, value in _options(head).items():
            if value != first[name]:
                raise ShapeError(
                    f"from_heads: head {number} has {name}={value} and head 0 has {name}={first[name]}; "
                    "build all heads with the same options"
                )


def _check_shared(heads: Sequence[mha.MultiHeadAttention], group: int) -> None:
    """Keys and values are shared in each group of heads, and QK-norms by all of them, so they must be equal."""
    for number, head in enumerate(heads):
        for name, parameter in head.named_parameters():
            first = 0 if "norm" in name else number // group * group
            shared = "norm" in name or name.startswith(("k_proj", "v_proj"))
            if shared and first != number and not torch.equal(parameter, heads[first].get_parameter(name)):
                raise ShapeError(
                    f"from_heads: with n_kv_heads={len(heads) // group}, heads {first} and {number} share {name}, "
                    "but theirs differ; make them equal"
                )


def _matrices(
    ours: mha.MultiHeadAttention, theirs: nn.MultiheadAttention
) -> list[tuple[nn.Linear, Tensor, Tensor | None]]:
    """Each matrix of ours with the weight and bias of theirs, which packs the first three where widths agree."""
    packed = theirs._parameters["in_proj_weight"]
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = (*(separate if packed is None else packed.chunk(3)), theirs.out_proj.weight)
    biases = (*((None,) * 3 if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)), theirs.out_proj.bias)
    return list(zip((ours.q_proj, ours.k_proj, ours.v_proj, ours.o_proj), weights, biases, strict=True))
