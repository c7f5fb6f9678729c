"""Which query may see which key: small masks that compose with ``&``.

Query ``i`` of ``n_query`` stands at key position ``i + offset`` with ``offset = n_key − n_query``, so that a short
block of new queries after a long cache lines up with the end of the keys. Everything here uses that one convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int, Num, Shaped
from torch import Tensor

from headscope.errors import MaskError

Rows = Int[Tensor, " query"]
Columns = Int[Tensor, " key"]
Side = Literal["right", "left"]
Bounds = tuple[int | float, int | float]
Allowed = Bool[Tensor, "#batch #head query key"]


@runtime_checkable
class Part(Protocol):
    """One condition. ``reach`` and ``clear`` bound the keys that any, or every, row of a block may see."""

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed: ...
    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None: ...
    def reach(self, start: int, stop: int, offset: int) -> Bounds: ...
    def clear(self, start: int, stop: int, offset: int) -> Bounds: ...


@runtime_checkable
class ByHead(Protocol):
    """A part that may tell each head something else, and can be cut down to what it tells one of them."""

    def only(self, head: int) -> Part: ...


EVERYWHERE = (float("-inf"), float("inf"))
NOWHERE = (0.0, 0.0)
SHOWN = 48  # a printed grid is no larger than this


class Anywhere:
    """A part whose keys may lie anywhere: none can be passed over, and none is known to be open to all."""

    def reach(self, start: int, stop: int, offset: int) -> Bounds:
        return EVERYWHERE

    def clear(self, start: int, stop: int, offset: int) -> Bounds:
        return NOWHERE


@dataclass(frozen=True)
class Causal:
    """No key after the query."""

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return (columns[None, :] <= rows[:, None] + offset)[None, None]

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        pass

    def reach(self, start: int, stop: int, offset: int) -> Bounds:
        return float("-inf"), stop + offset

    def clear(self, start: int, stop: int, offset: int) -> Bounds:
        return float("-inf"), start + offset + 1

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window:
    """Keys less than ``width`` away: with ``causal()``, the query itself and the ``width − 1`` keys before it."""

    width: int

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return ((rows[:, None] + offset - columns[None, :]).abs() < self.width)[None, None]

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        pass

    def reach(self, start: int, stop: int, offset: int) -> Bounds:
        return start + offset - self.width + 1, stop + offset + self.width - 1

    def clear(self, start: int, stop: int, offset: int) -> Bounds:
        return stop + offset - self.width, start + offset + self.width

    def __repr__(self) -> str:
        return f"window({self.width})"


@dataclass(frozen=True)
class Padding(Anywhere):
    """Only the first (or, padded on the left, the last) ``lengths[b]`` keys of each batch item are real."""

    lengths: Int[Tensor, " batch"]
    side: Side = "right"
    longest: int = 0  # read off the lengths once, so that using the mask never waits for a device
    n_key: int | None = None

    def real_keys(self, columns: Columns, n_key: int) -> Bool[Tensor, "batch key"]:
        lengths = self.lengths.to(columns.device)[:, None]
        return columns[None, :] < lengths if self.side == "right" else columns[None, :] >= n_key - lengths

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        if self.n_key is None:
            raise AssertionError("padding is bound to its number of keys before it is asked for a block")
        return self.real_keys(columns, self.n_key)[:, None, None, :].expand(-1, 1, len(rows), -1)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if len(self.lengths) not in (1, batch):
            raise MaskError(f"padding has {len(self.lengths)} lengths for a batch of {batch}; give one length an item")
        if self.longest > n_key:
            raise MaskError(
                f"padding says {self.longest} real keys, but there are only {n_key}; lengths count real tokens"
            )

    def __repr__(self) -> str:
        side = "" if self.side == "right" else ", side='left'"
        return f"padding({self.lengths.tolist()}{side})"


@dataclass(frozen=True)
class Documents(Anywhere):
    """Query and key belong to the same document of a packed row."""

    ids: Int[Tensor, "#batch key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        ids = self.ids.to(columns.device)
        return (ids[:, rows + offset, None] == ids[:, None, columns])[:, None]

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.ids.shape[0] not in (1, batch) or self.ids.shape[1] != n_key or n_query > n_key:
            raise MaskError(
                f"documents has ids of shape {tuple(self.ids.shape)} for batch {batch}, {n_query} queries and "
                f"{n_key} keys; give one id a key: ({batch}, {n_key})"
            )

    def __repr__(self) -> str:
        return f"documents(<{self.ids.shape[0]}×{self.ids.shape[1]} ids>)"


@dataclass(frozen=True)
class Dense(Anywhere):
    """Any mask at all, given as a tensor."""

    allowed: Bool[Tensor, "#batch #head query key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return self.allowed.to(columns.device)[:, :, rows[:, None], columns[None, :]]

    def only(self, head: int) -> Dense:
        return self if self.allowed.shape[1] == 1 else Dense(self.allowed[:, head : head + 1])

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        shape = tuple(self.allowed.shape)
        if shape[0] not in (1, batch) or shape[1] not in (1, n_heads) or shape[2:] != (n_query, n_key):
            raise MaskError(
                f"a dense mask of shape {shape} does not fit batch {batch}, {n_heads} heads, {n_query} queries and "
                f"{n_key} keys; give (query, key), (batch, query, key) or (batch, head, query, key), each of batch "
                "and head 1 or whole"
            )

    def __repr__(self) -> str:
        return f"dense(<{'×'.join(map(str, self.allowed.shape))}>)"


@dataclass(frozen=True, repr=False)
class Mask:
    """Conditions that must all hold. ``print`` it to see it as a grid."""

    parts: tuple[Part, ...] = ()

    def __and__(self, other: object) -> Mask:
        if not isinstance(other, Mask):
            raise MaskError(f"& joins two masks, and {type(other).__name__} is none; wrap a tensor in dense(…)")
        return Mask(self.parts + tuple(part for part in other.parts if part != Causal() or part not in self.parts))

    @property
    def is_full(self) -> bool:
        return len(self.parts) == 0  # not `not`: a compiled graph cannot negate a tuple

    @property
    def is_causal(self) -> bool:
        """Causal and nothing else."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Causal)

    def bind(self, batch: int, n_heads: int, n_query: int, n_key: int) -> Mask:
        """This mask, checked against the sizes it will be used with."""
        if self.is_full or self.is_causal:
            return self
        for part in self.parts:
            part.check(batch, n_heads, n_query, n_key)
        if not any(isinstance(part, Padding) for part in self.parts):
            return self
        return Mask(tuple(replace(part, n_key=n_key) if isinstance(part, Padding) else part for part in self.parts))

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        """Who may see whom among these rows and columns."""
        allowed = torch.ones(1, 1, len(rows), len(columns), dtype=torch.bool, device=columns.device)
        for part in self.parts:
            allowed = allowed & part.block(rows, columns, offset)
        return allowed

    def dense(self, n_query: int, n_key: int, device: torch.device | str = "cpu") -> Allowed:
        """The whole grid. For small sizes and for backends that want it so."""
        rows, columns = torch.arange(n_query, device=device), torch.arange(n_key, device=device)
        return self.block(rows, columns, n_key - n_query)

    def reach(self, start: int, stop: int, offset: int, n_key: int) -> tuple[int, int]:
        """The keys that any of the rows ``start:stop`` may see lie in this range."""
        return _intersect([part.reach(start, stop, offset) for part in self.parts], n_key)

    def clear(self, start: int, stop: int, offset: int, n_key: int) -> tuple[int, int]:
        """Every one of the rows ``start:stop`` may see all keys in this range."""
        return _intersect([part.clear(start, stop, offset) for part in self.parts], n_key)

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts)) or "full()"

    def __str__(self) -> str:
        n_query, n_key, batch, heads = _natural_size(self)
        bound, (height, width) = self.bind(batch, heads, n_query, n_key), (min(n_query, SHOWN), min(n_key, SHOWN))
        grid = bound.block(torch.arange(height), torch.arange(width), n_key - n_query)[0, 0]
        notes = [f"the first {height}×{width} of {n_query}×{n_key}"] if (height, width) != (n_query, n_key) else []
        notes += ["first batch item and head"] if (batch, heads) != (1, 1) else []
        title = f"{self!r}: query ↓ key →" + (f" ({', '.join(notes)})" if notes else "")
        return "\n".join([title, *(" ".join("■" if cell else "·" for cell in row) for row in grid.tolist())])


FULL = Mask()


def full() -> Mask:
    """Everybody sees everything."""
    return FULL


def causal() -> Mask:
    """No key after the query."""
    return Mask((Causal(),))


def window(width: int) -> Mask:
    """Keys less than ``width`` away, on either side; combine with ``causal()`` for a sliding window."""
    if width < 1:
        raise MaskError(f"window({width}): a window of less than one key hides everything; give at least 1")
    return Mask((Window(width),))


def padding(lengths: Num[Tensor, "..."] | Sequence[int | float], side: str = "right") -> Mask:
    """Real keys only: ``lengths`` counts them for each batch item, padded on that ``side``."""
    sides: dict[str, Side] = {"right": "right", "left": "left"}
    if side not in sides:
        raise MaskError(f"padding(side={side!r}): the side is 'right' or 'left'")
    counts = torch.as_tensor(lengths)
    if counts.is_floating_point() or counts.ndim != 1 or not len(counts) or int(counts.min()) < 0:
        raise MaskError(f"padding needs one whole number ≥ 0 a batch item, got {lengths}")
    return Mask((Padding(counts, sides[side], longest=int(counts.max())),))


def documents(ids: Num[Tensor, "..."] | Sequence[int] | Sequence[Sequence[int]]) -> Mask:
    """Packed documents: a query sees only keys with its own id."""
    tensor = torch.as_tensor(ids)
    if tensor.is_floating_point() or tensor.ndim not in (1, 2):
        raise MaskError(f"documents needs integer ids of shape (key) or (batch, key), got shape {tuple(tensor.shape)}")
    return Mask((Documents(tensor if tensor.ndim == 2 else tensor[None]),))


def dense(mask: Shaped[Tensor, "..."]) -> Mask:
    """Any mask: True (or 0.0) where a query may look, False (or −inf) where it may not. Three axes start with batch."""
    if not 2 <= mask.ndim <= 4:
        raise MaskError(f"a dense mask has 2 to 4 axes, (query, key) last; got shape {tuple(mask.shape)}")
    lifted = mask[(None,) * (4 - mask.ndim)] if mask.ndim != 3 else mask[:, None]
    return Mask((Dense(_as_bool(lifted)),))


def _as_bool(mask: Tensor) -> Bool[Tensor, "..."]:
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        raise MaskError(f"a dense mask of {mask.dtype} is ambiguous (keep or hide?); use bool, True where one may look")
    wrong = mask.isnan()
    if wrong.any():
        where = tuple(wrong.nonzero()[0].tolist())
        raise MaskError(f"the mask has {int(wrong.sum())} NaN, the first at {where}; use 0 to look and −inf to hide")
    finite = (mask != 0) & ~mask.isneginf()
    if finite.any():
        value = float(mask[finite][0])
        raise MaskError(f"the mask has {value:g}, neither 0 nor −inf; numbers to add to scores go to Scores(bias=…)")
    return mask == 0


def _intersect(ranges: list[Bounds], n_key: int) -> tuple[int, int]:
    low = max([0.0, *(low for low, _ in ranges)])
    high = min([float(n_key), *(high for _, high in ranges)])
    return (int(low), int(high)) if high > low else (0, 0)


def _natural_size(mask: Mask) -> tuple[int, int, int, int]:
    """Queries, keys, batch and heads for printing: what the parts themselves imply, else eight by eight."""
    n_query, n_key, batch, heads = 8, 8, 1, 1
    for part in mask.parts:
        if isinstance(part, Dense):
            batch, heads = max(batch, part.allowed.shape[0]), max(heads, part.allowed.shape[1])
            n_query, n_key = part.allowed.shape[2:]
        elif isinstance(part, Documents):
            batch, n_query, n_key = max(batch, part.ids.shape[0]), part.ids.shape[1], part.ids.shape[1]
        elif isinstance(part, Padding):
            batch = max(batch, len(part.lengths))
            n_query = n_key = max(n_key, part.longest)
    return n_query, n_key, batch, heads
