"""Products with a matrix of weights, in any form, as ``x [row, in] @ weight [in, out] + bias``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headscope.models.any_torch.axes import letters, operands
from headscope.models.any_torch.function_mode import MatrixUse


@dataclass(frozen=True)
class MatrixProduct:
    """A matrix product: its input as the model gave it, the weight, and how input and output become rows."""

    x: Tensor
    weight: Float[Tensor, "in out"]
    bias: Float[Tensor, " out"] | None
    rows: Callable[[Tensor], Tensor]
    """A tensor shaped as the input, as ``[row, in]``."""
    out_rows: Callable[[Tensor], Tensor]
    """The output as ``[row, out]``."""
    with_weight: Callable[[Float[Tensor, "in out"]], Tensor]
    """The output with another weight."""
    with_input: Callable[[Tensor], Tensor]
    """The output for another input."""
    parameter: Tensor
    """The weight as the model holds it."""
    convolution: bool = False

    def channels_last(self, x: Tensor) -> Tensor:
        """Input or output with its channels last; a convolution's positions as rows, batch first."""
        return x.flatten(2).transpose(1, 2) if self.convolution else x


def as_matrix(use: MatrixUse) -> MatrixProduct | None:
    """Describe one use of a matrix; None where it is no plain matrix (a convolution over several positions)."""
    if use.name == "linear":
        return _linear(use)
    if use.name == "addmm":
        return _addmm(use)
    if use.name in ("conv1d", "conv2d"):
        return _convolution(use)
    return _product(use)


def _named(use: MatrixUse, *names: str) -> list[Any]:
    given = [*use.args, *([None] * len(names))][: len(names)]
    return [use.kwargs.get(name, value) for name, value in zip(names, given, strict=True)]


def _last(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1])


def _linear(use: MatrixUse) -> MatrixProduct | None:
    x, weight, bias = _named(use, "input", "weight", "bias")
    if weight.ndim != 2 or not x.is_floating_point():
        return None
    return MatrixProduct(
        x,
        weight.T,
        bias,
        _last,
        _last,
        lambda w: use.function(x, w.T, bias),
        lambda y: use.function(y, weight, bias),
        weight,
    )


def _addmm(use: MatrixUse) -> MatrixProduct | None:
    bias, x, weight = _named(use, "input", "mat1", "mat2")
    if any(use.kwargs.get(name, 1) != 1 for name in ("beta", "alpha")) or not isinstance(x, Tensor):
        return None
    return MatrixProduct(
        x,
        weight,
        bias,
        _last,
        _last,
        lambda w: use.function(bias, x, w),
        lambda y: use.function(bias, y, weight),
        weight,
    )


def _convolution(use: MatrixUse) -> MatrixProduct | None:
    x, weight, bias, stride, padding, _, groups = _named(
        use, "input", "weight", "bias", "stride", "padding", "dilation", "groups"
    )
    plain = all(v in (None, 1, (1,), (1, 1)) for v in (stride, groups)) and padding in (None, 0, (0,), (0, 0))
    if math.prod(weight.shape[2:]) != 1 or not plain or x.ndim != weight.ndim:
        return None

    def rows(t: Tensor) -> Tensor:
        return t.movedim(1, -1).reshape(-1, t.shape[1])

    def with_weight(w: Tensor) -> Tensor:
        out: Tensor = use.function(x, w.T.reshape(weight.shape), bias)
        return out

    return MatrixProduct(
        x, weight.flatten(1).T, bias, rows, rows, with_weight, lambda y: use.function(y, weight, bias), weight, True
    )


def _product(use: MatrixUse) -> MatrixProduct | None:
    found = operands(use.name, use.args, use.kwargs)
    if found is None:
        return None
    x, weight, equation = found
    if equation is not None:
        return _einsum(use, x, weight, equation)
    if weight.ndim != 2:  # a product of batches: baddbmm
        return None
    return MatrixProduct(
        x, weight, None, _last, _last, lambda w: use.function(x, w), lambda y: use.function(y, weight), weight
    )


def _einsum(use: MatrixUse, x: Tensor, weight: Tensor, equation: str) -> MatrixProduct | None:
    axes = letters(equation, x, weight)
    if axes is None:
        return None
    lx, lw, out = axes
    summed = [c for c in lx if c in lw and c not in out]
    kept, made = [c for c in lx if c not in summed], [c for c in lw if c not in summed]
    if not summed or any(c in lw for c in kept) or set(out) != {*kept, *made}:
        return None
    width = math.prod(weight.shape[lw.index(c)] for c in summed)
    order = [lw.index(c) for c in (*summed, *made)]
    ordered = weight.permute(order)

    def with_weight(w: Tensor) -> Tensor:
        back = w.reshape(ordered.shape).permute([order.index(axis) for axis in range(len(order))])
        result: Tensor = use.function(equation, x, back)
        return result

    return MatrixProduct(
        x,
        ordered.reshape(width, -1),
        None,
        lambda t: t.permute([lx.index(c) for c in (*kept, *summed)]).reshape(-1, width),
        lambda t: t.permute([out.index(c) for c in (*kept, *made)]).reshape(-1, ordered.reshape(width, -1).shape[1]),
        with_weight,
        lambda y: use.function(equation, y, weight),
        weight,
    )
