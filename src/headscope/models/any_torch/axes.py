"""Bring every attention computation to one order of axes: ``[lead…, query, d]``, then ``[batch, head, query, d]``.

A product of weights and values may be a ``matmul`` either way round or an ``einsum`` with any letters. What its leading
axes are (batch, head, both in one) is not guessed here: ``learning`` finds out, and ``HeadAxes`` holds the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

AxisKind = Literal["batch", "head", "batch head", "head batch"]

_SPARE = "ZYXWVUTSRQ"
"""Letters that stand for the axes of an ellipsis."""


def operands(name: str, args: Any, kwargs: Any) -> tuple[Tensor, Tensor] | None:
    """The two factors of a product; None for any other form."""
    if name == "baddbmm":
        given = [*args, *(kwargs[key] for key in ("batch1", "batch2") if key in kwargs)]
        return (given[1], given[2]) if len(given) > 2 else None
    other = args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("mat2"))
    if not args or not isinstance(args[0], Tensor) or not isinstance(other, Tensor):
        return None
    return (args[0], other) if args[0].ndim > 1 and other.ndim > 1 else None


def einsum_as_matmul(args: Any, is_weight: Callable[[Tensor], bool]) -> Tensor | None:
    """An einsum of two factors, computed as a ``matmul`` of them with their axes in order; None for any other form."""
    rest = args[1:] if len(args) != 2 or isinstance(args[1], Tensor) else tuple(args[1])
    axes = _letters(args[0].replace(" ", ""), *rest) if isinstance(args[0], str) and len(rest) == 2 else None
    if axes is None:
        return None
    la, lb, out = axes
    a: Tensor = rest[0]
    b: Tensor = rest[1]
    if is_weight(a):
        a, b, la, lb = b, a, lb, la
    summed = [c for c in la if c in lb and c not in out]
    rows, columns = [c for c in out if c not in lb], [c for c in out if c not in la]
    if {*la, *lb} != {*summed, *out} or not (summed and rows and columns):
        return None
    lead = [c for c in out if c not in (rows[-1], columns[-1])]
    if is_weight(b) and not set(lb) - {*summed, *columns}:
        a = _ordered(a, la, [*rows, *summed]).flatten(len(rows))
        weight = _ordered(b, lb, [*summed, *columns])
        made = (a @ weight.reshape(a.shape[-1], -1)).reshape(*a.shape[:-1], *weight.shape[len(summed) :])
        lead = [*rows, *columns[:-1]]
    elif len(summed) > 1:
        return None
    else:  # a head that values do not have, or a second axis of values, leads; factors broadcast there
        made = _ordered(a, la, [*lead, rows[-1], *summed]) @ _ordered(b, lb, [*lead, *summed, columns[-1]])
        lead = [*lead, rows[-1]]
    return made.permute([[*lead, columns[-1]].index(c) for c in out])


def _letters(equation: str, a: Tensor, b: Tensor) -> tuple[str, str, str] | None:
    """The axes of both factors and of the result, an ellipsis written out; None where a letter repeats."""
    left, arrow, out = equation.partition("->")
    sides = left.split(",")
    if not arrow or len(sides) != 2:
        return None
    named = [side.replace("...", "") for side in sides]
    extra = max(a.ndim - len(named[0]), b.ndim - len(named[1])) if "..." in equation else 0
    spare = [letter for letter in _SPARE if letter not in equation][:extra]
    la, lb, lo = (side.replace("...", "".join(spare)) for side in (*sides, out))
    if len(la) != a.ndim or len(lb) != b.ndim or any(len(set(each)) < len(each) for each in (la, lb, lo)):
        return None
    return la, lb, lo


def _ordered(tensor: Tensor, has: str, wanted: list[str]) -> Tensor:
    """Permute axes into the wanted order, with 1 for those that the tensor does not have."""
    tensor = tensor.permute([has.index(c) for c in wanted if c in has])
    for axis, c in enumerate(wanted):
        if c not in has:
            tensor = tensor.unsqueeze(axis)
    return tensor


@dataclass(frozen=True)
class HeadAxes:
    """What each leading axis of z is, and how many heads a merged axis holds."""

    kinds: tuple[AxisKind, ...]
    heads: int

    def n_heads(self, lead: tuple[int, ...]) -> int:
        """How many heads a z with these leading axes has."""
        sizes = zip(self.kinds, lead, strict=True)
        return math.prod(self.heads if " " in kind else size for kind, size in sizes if "head" in kind)

    def to_heads(self, tensor: Tensor, lead: tuple[int, ...]) -> Tensor:
        """A tensor ``[lead…, …, …]`` as ``[batch, head, …, …]``; leading axes may be 1 where it broadcasts."""
        if self.kinds == ("batch", "head") and tensor.ndim == 4:
            return tensor
        tensor = tensor[(None,) * (len(lead) + 2 - tensor.ndim)]
        shape, batch, head = self._split(tuple(tensor.shape[:-2]), lead)
        order = (*batch, *head, len(shape), len(shape) + 1)
        parts = tensor.reshape(*shape, *tensor.shape[-2:]).permute(order)
        sizes = parts.shape[: len(shape)]
        return parts.reshape(math.prod(sizes[: len(batch)]), math.prod(sizes[len(batch) :]), *tensor.shape[-2:])

    def from_heads(self, z: Tensor, lead: tuple[int, ...]) -> Tensor:
        """``[batch, head, query, d]`` as ``[lead…, query, d]``."""
        if self.kinds == ("batch", "head"):
            return z
        shape, batch, head = self._split(lead, lead)
        order = (*batch, *head)
        parts = z.reshape(*(shape[axis] for axis in order), *z.shape[2:])
        back = [order.index(axis) for axis in range(len(shape))]
        return parts.permute(*back, len(shape), len(shape) + 1).reshape(*lead, *z.shape[2:])

    def _split(self, sizes: tuple[int, ...], lead: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
        """Sizes with merged axes split, and which of them are batch and head axes."""
        shape: list[int] = []
        batch: list[int] = []
        head: list[int] = []
        for kind, size, full in zip(self.kinds, sizes, lead, strict=True):
            if " " in kind:
                pair = (full // self.heads, self.heads) if size > 1 else (1, 1)
                for word in kind.split():
                    (batch if word == "batch" else head).append(len(shape))
                    shape.append(pair[0] if word == "batch" else pair[1])
            else:
                (batch if kind == "batch" else head).append(len(shape))
                shape.append(size)
        return shape, batch, head
