"""Products with a matrix of weights, in any form, as ``x [row, in] @ weight [in, out] + bias``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from headscope.models.any_torch.axes import operands
from headscope.models.any_torch.function_mode import MatrixUse


@dataclass(frozen=True)
class MatrixProduct:
    """A matrix product: its original input, the weight, and the output for another input."""

    x: Tensor
    weight: Float[Tensor, "in out"]
    bias: Float[Tensor, " out"] | None
    parameter: Tensor
    """The weight as the model holds it."""
    with_input: Callable[[Tensor], Tensor]
    axis: int = -1
    """The channels of input and output: the last axis, or that of a convolution."""

    def rows(self, x: Tensor) -> Float[Tensor, "row channel"]:
        """Input or output as rows of channels."""
        return x.movedim(self.axis, -1).reshape(-1, x.shape[self.axis])

    def channels_last(self, x: Tensor) -> Tensor:
        """Input or output with its channels last; a convolution's positions as rows, batch first."""
        return x.flatten(2).transpose(1, 2) if self.axis == 1 else x

    def without(self, channels: Int[Tensor, " channel"]) -> Tensor:
        """Return the output with these rows of the weight, and so these channels of the input, set to zero."""
        return self.with_input(self.x.index_fill(self.axis, channels, 0.0))


def as_matrix(use: MatrixUse) -> MatrixProduct | None:
    """Describe one use of a matrix; None if it is not a plain matrix (a convolution over several positions)."""
    if use.name in ("conv1d", "conv2d"):
        return _convolution(use)
    if use.name == "linear":
        x, weight, bias = _named(use, "input", "weight", "bias")
        if weight.ndim != 2 or not x.is_floating_point():
            return None
        return MatrixProduct(x, weight.T, bias, weight, lambda y: use.function(y, weight, bias))
    if use.name == "addmm":
        bias, x, weight = _named(use, "input", "mat1", "mat2")
        if any(use.kwargs.get(name, 1) != 1 for name in ("beta", "alpha")) or not isinstance(x, Tensor):
            return None
        return MatrixProduct(x, weight, bias, _held(weight), lambda y: use.function(bias, y, weight))
    x, weight = operands(use.name, use.args, use.kwargs) or (None, None)
    if x is None or weight is None or weight.ndim != 2:  # a product of batches: baddbmm
        return None
    return MatrixProduct(x, weight, None, _held(weight), lambda y: use.function(y, weight))


def _held(weight: Tensor) -> Tensor:
    """The parameter of which this is a view, where it is one of all of it."""
    base = weight._base
    return weight if base is None or base.numel() != weight.numel() else base


def _named(use: MatrixUse, *names: str) -> list[Any]:
    given = [*use.args, *([None] * len(names))][: len(names)]
    return [use.kwargs.get(name, value) for name, value in zip(names, given, strict=True)]


def _convolution(use: MatrixUse) -> MatrixProduct | None:
    x, weight, bias, stride, padding, _, groups = _named(
        use, "input", "weight", "bias", "stride", "padding", "dilation", "groups"
    )
    plain = all(v in (None, 1, (1,), (1, 1)) for v in (stride, groups)) and padding in (None, 0, (0,), (0, 0))
    if math.prod(weight.shape[2:]) != 1 or not plain or x.ndim != weight.ndim:
        return None
    return MatrixProduct(x, weight.flatten(1).T, bias, weight, lambda y: use.function(y, weight, bias), axis=1)
