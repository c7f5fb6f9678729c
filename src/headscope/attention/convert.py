"""Taking a MultiHeadAttention apart and putting it together: single heads, PyTorch's module, and what it weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headscope.attention.module import MultiHeadAttention
from headscope.errors import ShapeError


def split(module: MultiHeadAttention) -> list[MultiHeadAttention]:
    """Every head as a module of its own. Their outputs add up to the whole; the first carries W_O's bias.

    Heads that share keys and values each get a copy of them.
    """
    return [_cut(module, head) for head in range(module.n_heads)]


@torch.no_grad()
def from_heads(heads: Sequence[MultiHeadAttention], n_kv_heads: int | None = None) -> MultiHeadAttention:
    """One batched module that does what these single heads do side by side: its output is the sum of theirs.

    With ``n_kv_heads``, heads of one group must have the same keys and values, and share them.
    """
    _check_alike(heads)
    first, n_kv_heads = heads[0], len(heads) if n_kv_heads is None else n_kv_heads
    out_bias = any(head.o_proj.bias is not None for head in heads)
    whole = _like(first, n_heads=len(heads), n_kv_heads=n_kv_heads, out_bias=out_bias)
    keepers = _keepers(heads, n_kv_heads)
    for name, sources in (("q_proj", heads), ("k_proj", keepers), ("v_proj", keepers)):
        linears = [getattr(source, name) for source in sources]
        _fill(getattr(whole, name), [linear.weight for linear in linears], [linear.bias for linear in linears])
    whole.o_proj.weight.copy_(torch.cat([head.o_proj.weight for head in heads], dim=1))
    if whole.o_proj.bias is not None:
        biases: list[Tensor] = [head.o_proj.bias for head in heads if head.o_proj.bias is not None]
        whole.o_proj.bias.copy_(torch.stack(biases).sum(0))
    _copy_norms(first, whole)
    return whole


@torch.no_grad()
def from_torch(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """The same attention as PyTorch's module. Ours always takes ``[batch, position, width]``, whatever theirs takes."""
    if theirs.bias_k is not None:
        raise ShapeError("add_bias_kv=True appends a learned key and value, which this module does not have")
    if theirs.add_zero_attn:
        raise ShapeError("add_zero_attn=True appends a key and value of zeros, which this module does not have")
    if theirs.kdim != theirs.vdim:
        raise ShapeError(f"kdim={theirs.kdim} and vdim={theirs.vdim} differ; here keys and values read one context")
    biased = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        bias=biased,
        out_bias=theirs.out_proj.bias is not None,
        dropout=theirs.dropout,
        d_context=theirs.kdim,
    ).to(theirs.out_proj.weight)
    weights = _their_weights(theirs)
    biases = theirs.in_proj_bias.chunk(3) if biased else (None, None, None)
    for linear, weight, bias in zip((ours.q_proj, ours.k_proj, ours.v_proj), weights, biases, strict=True):
        _fill(linear, [weight], [bias])
    _fill(ours.o_proj, [theirs.out_proj.weight], [theirs.out_proj.bias])
    return ours.train(theirs.training)


@torch.no_grad()
def to_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """The same attention as a ``torch.nn.MultiheadAttention`` (batch first). A bias that it must have is zero there."""
    for wrong, what in (
        (ours.n_kv_heads != ours.n_heads, f"n_kv_heads={ours.n_kv_heads} shared by n_heads={ours.n_heads}"),
        (ours.n_heads * ours.d_head != ours.d_model, f"{ours.n_heads} heads of {ours.d_head} in width {ours.d_model}"),
        (ours.rope is not None, "RoPE"),
        (ours.q_norm is not None, "QK-norm"),
    ):
        if wrong:
            raise ShapeError(f"torch.nn.MultiheadAttention has no {what}; it cannot hold this module")
    linears = (ours.q_proj, ours.k_proj, ours.v_proj)
    biased = any(linear.bias is not None for linear in (*linears, ours.o_proj))
    theirs = nn.MultiheadAttention(
        ours.d_model,
        ours.n_heads,
        dropout=ours.dropout,
        bias=biased,
        kdim=ours.d_context,
        vdim=ours.d_context,
        batch_first=True,
    ).to(ours.o_proj.weight)
    for target, linear in zip(_their_weights(theirs), linears, strict=True):
        target.copy_(linear.weight)
    theirs.out_proj.weight.copy_(ours.o_proj.weight)
    if biased:
        targets = (*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias)
        for target, linear in zip(targets, (*linears, ours.o_proj), strict=True):
            target.copy_(torch.zeros_like(target) if linear.bias is None else linear.bias)
    return theirs.train(ours.training)


class Matrix(NamedTuple):
    """One matrix of a module: its shape, input by output, and how many numbers it and its bias hold."""

    name: str
    shape: tuple[int, ...]
    weights: int
    biases: int

    @property
    def parameters(self) -> int:
        return self.weights + self.biases


@dataclass(frozen=True)
class ParameterTable:
    """What a module weighs, matrix by matrix. ``print`` it."""

    matrices: tuple[Matrix, ...]

    @property
    def total(self) -> int:
        return sum(matrix.parameters for matrix in self.matrices)

    def __getitem__(self, name: str) -> Matrix:
        return {matrix.name: matrix for matrix in self.matrices}[name]

    def __str__(self) -> str:
        lines = [f"{'matrix':<8}{'shape':>14}{'weights':>14}{'bias':>9}{'together':>14}"]
        for name, shape, weights, biases in self.matrices:
            size = " × ".join(f"{width:,}" for width in shape)
            lines.append(f"{name:<8}{size:>14}{weights:>14,}{biases or '–':>9}{weights + biases:>14,}")
        return "\n".join([*lines, f"{'total':<45}{self.total:>14,}"])


def parameter_table(module: MultiHeadAttention) -> ParameterTable:
    rows = []
    named = {"W_Q": module.q_proj, "W_K": module.k_proj, "W_V": module.v_proj, "W_O": module.o_proj}
    for name, linear in named.items():
        bias = 0 if linear.bias is None else linear.bias.numel()
        rows.append(Matrix(name, (linear.in_features, linear.out_features), linear.weight.numel(), bias))
    for name, norm in (("q_norm", module.q_norm), ("k_norm", module.k_norm)):
        if norm is not None:
            rows.append(Matrix(name, tuple(norm.weight.shape), norm.weight.numel(), 0))
    return ParameterTable(tuple(rows))


@torch.no_grad()
def _cut(module: MultiHeadAttention, head: int) -> MultiHeadAttention:
    one = _like(module, n_heads=1, n_kv_heads=1, out_bias=head == 0 and module.o_proj.bias is not None)
    kv, width = head // (module.n_heads // module.n_kv_heads), module.d_head
    for name, index in (("q_proj", head), ("k_proj", kv), ("v_proj", kv)):
        linear, rows = getattr(module, name), slice(index * width, (index + 1) * width)
        _fill(getattr(one, name), [linear.weight[rows]], [None if linear.bias is None else linear.bias[rows]])
    columns = slice(head * width, (head + 1) * width)
    _fill(one.o_proj, [module.o_proj.weight[:, columns]], [module.o_proj.bias if head == 0 else None])
    _copy_norms(module, one)
    return one


def _like(module: MultiHeadAttention, *, n_heads: int, n_kv_heads: int, out_bias: bool) -> MultiHeadAttention:
    """A module with other heads, but otherwise like this one."""
    return (
        MultiHeadAttention(
            module.d_model,
            n_heads,
            n_kv_heads,
            module.d_head,
            bias=module.q_proj.bias is not None,
            out_bias=out_bias,
            rope=module.rope,
            qk_norm=module.q_norm is not None,
            dropout=module.dropout,
            d_context=module.d_context,
        )
        .to(module.o_proj.weight)
        .train(module.training)
    )


def _check_alike(heads: Sequence[MultiHeadAttention]) -> None:
    if not heads:
        raise ShapeError("from_heads got no heads; give at least one module with n_heads=1")
    first = heads[0]
    for place, head in enumerate(heads):
        if head.n_heads != 1:
            raise ShapeError(f"from_heads: module {place} has {head.n_heads} heads; split() it first")
        for name, mine, wanted in _traits(head, first):
            if mine != wanted:
                raise ShapeError(f"from_heads: head {place} has {name} {mine}, head 0 has {wanted}; they must agree")
        if first.q_norm is not None and not _same_norms(first, head):
            raise ShapeError(f"from_heads: head {place} has other QK-norm weights than head 0; one module shares them")


def _traits(head: MultiHeadAttention, first: MultiHeadAttention) -> list[tuple[str, object, object]]:
    pairs = [(name, getattr(head, name), getattr(first, name)) for name in ("d_model", "d_head", "d_context", "rope")]
    bias = ("q, k, v biases", head.q_proj.bias is not None, first.q_proj.bias is not None)
    norm = ("QK-norm", head.q_norm is not None, first.q_norm is not None)
    return [*pairs, bias, norm, ("dropout", head.dropout, first.dropout)]


def _keepers(heads: Sequence[MultiHeadAttention], n_kv_heads: int) -> list[MultiHeadAttention]:
    """One head of each group, whose keys and values the group shares."""
    group = len(heads) // n_kv_heads
    for place, head in enumerate(heads):
        keeper = heads[place // group * group]
        for name in ("k_proj", "v_proj"):
            mine, theirs = getattr(head, name), getattr(keeper, name)
            if not _same(mine.weight, theirs.weight) or not _same(mine.bias, theirs.bias):
                raise ShapeError(
                    f"from_heads: with {n_kv_heads=}, head {place} must have the {name} of head "
                    f"{place // group * group}, and has another"
                )
    return list(heads[::group])


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _same_norms(one: MultiHeadAttention, other: MultiHeadAttention) -> bool:
    mine, theirs = (dict(module.named_parameters()) for module in (one, other))
    return all(torch.equal(mine[name], theirs[name]) for name in ("q_norm.weight", "k_norm.weight"))


def _copy_norms(source: MultiHeadAttention, target: MultiHeadAttention) -> None:
    norms = dict(target.named_parameters())
    for name, weight in source.named_parameters():
        if name in ("q_norm.weight", "k_norm.weight"):
            norms[name].copy_(weight)


def _fill(linear: nn.Linear, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
    linear.weight.copy_(torch.cat(list(weights)))
    if linear.bias is not None:
        linear.bias.copy_(torch.cat([bias for bias in biases if bias is not None]))


def _their_weights(theirs: nn.MultiheadAttention) -> tuple[Tensor, ...]:
    """Views of PyTorch's three input matrices: packed into one where all widths agree."""
    packed = theirs._parameters["in_proj_weight"]
    return (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight) if packed is None else packed.chunk(3)
