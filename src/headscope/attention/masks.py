"""Attention masks that compose with ``&``: causal, sliding window, padding, packed documents, any boolean tensor.

Query ``i`` of ``n_query`` is at key position ``i + offset`` with ``offset = n_key − n_query``, so that the few new
queries after a KV cache line up with the end of the keys. All of ``headscope.attention`` uses this convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Int, Num, Shaped
from torch import Tensor

from headscope.checked import checked, named
from headscope.errors import MaskError

Rows = Int[Tensor, " query"]
Columns = Int[Tensor, " key"]
Side = Literal["right", "left"]
Bounds = tuple[int | float, int | float]
Allowed = Bool[Tensor, "#batch #head query key"]

ALL_KEYS = (float("-inf"), float("inf"))
NO_KEYS = (0.0, 0.0)
MAX_PRINTED = 48  # rows and columns of a printed mask


class Part:
    """One condition of a mask. By default nothing is known of where its keys are, and all heads share it."""

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        """Return which of these query rows may attend to which of these key columns."""
        raise NotImplementedError

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        """Raise a MaskError if this part does not fit the sizes."""

    def visible_to_any(self, start: int, stop: int, offset: int) -> Bounds:
        """Bound the keys that at least one of the rows ``start:stop`` may attend to."""
        return ALL_KEYS

    def visible_to_all(self, start: int, stop: int, offset: int) -> Bounds:
        """Bound keys that every one of the rows ``start:stop`` may attend to."""
        return NO_KEYS

    def only(self, head: int) -> Part:
        """Return this part for one head."""
        return self


@dataclass(frozen=True)
class Causal(Part):
    """Keys up to the query's own position."""

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return (columns[None, :] <= rows[:, None] + offset)[None, None]

    def visible_to_any(self, start: int, stop: int, offset: int) -> Bounds:
        return float("-inf"), stop + offset

    def visible_to_all(self, start: int, stop: int, offset: int) -> Bounds:
        return float("-inf"), start + offset + 1

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(Part):
    """Keys less than ``width`` away: with ``causal()``, the query itself and the ``width − 1`` keys before it."""

    width: int

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        return ((rows[:, None] + offset - columns[None, :]).abs() < self.width)[None, None]

    def visible_to_any(self, start: int, stop: int, offset: int) -> Bounds:
        return start + offset - self.width + 1, stop + offset + self.width - 1

    def visible_to_all(self, start: int, stop: int, offset: int) -> Bounds:
        return stop + offset - self.width, start + offset + self.width

    def __repr__(self) -> str:
        return f"window({self.width})"


@dataclass(frozen=True)
class Padding(Part):
    """Only the first (or, padded on the left, the last) ``lengths[b]`` keys of each batch item are real."""

    lengths: Int[Tensor, " batch"]
    side: Side = "right"
    longest: int = 0  # the largest length, read once so that using the mask never waits for a GPU
    n_key: int | None = None

    def real_keys(self, columns: Columns, n_key: int) -> Bool[Tensor, "batch key"]:
        lengths = self.lengths.to(columns.device)[:, None]
        return columns[None, :] < lengths if self.side == "right" else columns[None, :] >= n_key - lengths

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        assert self.n_key is not None, "Mask.bind sets n_key before block() is called"
        return self.real_keys(columns, self.n_key)[:, None, None, :].expand(-1, 1, len(rows), -1)

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if len(self.lengths) not in (1, batch):
            raise MaskError(f"padding has {len(self.lengths)} lengths for a batch of {batch}; give one length per item")
        if self.longest > n_key:
            raise MaskError(
                f"padding has a length of {self.longest} keys, but there are only {n_key}; lengths count real tokens"
            )

    def __repr__(self) -> str:
        side = "" if self.side == "right" else ", side='left'"
        return f"padding({self.lengths.tolist()}{side})"


@dataclass(frozen=True)
class Documents(Part):
    """Keys in the query's own document, where several documents are packed into one row."""

    ids: Int[Tensor, "#batch key"]

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        ids = self.ids.to(columns.device)
        return (ids[:, rows + offset, None] == ids[:, None, columns])[:, None]

    def check(self, batch: int, n_heads: int, n_query: int, n_key: int) -> None:
        if self.ids.shape[0] not in (1, batch) or self.ids.shape[1] != n_key or n_query > n_key:
            raise MaskError(
                f"documents has ids of shape {tuple(self.ids.shape)} for batch {batch}, {n_query} queries and "
                f"{n_key} keys; give one id per key: ({batch}, {n_key})"
            )

    def __repr__(self) -> str:
        return f"documents(<{self.ids.shape[0]}×{self.ids.shape[1]} ids>)"


@dataclass(frozen=True)
class Dense(Part):
    """Any mask, as a boolean tensor that is True where a query may attend."""

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
                f"{n_key} keys; give (query, key), (batch, query, key) or (batch, head, query, key); batch and head "
                "may be 1"
            )

    def __repr__(self) -> str:
        return f"dense(<{'×'.join(map(str, self.allowed.shape))}>)"


@dataclass(frozen=True, repr=False)
class Mask:
    """Conditions that must all hold for a query to attend to a key. ``print(mask)`` draws it as a grid."""

    parts: tuple[Part, ...] = ()

    def __and__(self, other: object) -> Mask:
        if not isinstance(other, Mask):
            raise MaskError(f"& joins two masks, got {type(other).__name__}; wrap a tensor in dense(…)")
        return Mask(self.parts + tuple(part for part in other.parts if part != Causal() or part not in self.parts))

    @property
    def is_full(self) -> bool:
        """Whether every query may attend to every key."""
        return len(self.parts) == 0  # not `not`: a compiled graph cannot negate a tuple

    @property
    def is_causal(self) -> bool:
        """Whether the mask is causal and nothing else."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Causal)

    def bind(self, batch: int, n_heads: int, n_query: int, n_key: int) -> Mask:
        """Check this mask against the sizes it will be used with, and return it ready for ``block``."""
        if self.is_full or self.is_causal:
            return self
        for part in self.parts:
            part.check(batch, n_heads, n_query, n_key)
        if not any(isinstance(part, Padding) for part in self.parts):
            return self
        return Mask(tuple(replace(part, n_key=n_key) if isinstance(part, Padding) else part for part in self.parts))

    def block(self, rows: Rows, columns: Columns, offset: int) -> Allowed:
        """Return which of these query rows may attend to which of these key columns."""
        allowed = torch.ones(1, 1, len(rows), len(columns), dtype=torch.bool, device=columns.device)
        for part in self.parts:
            allowed = allowed & part.block(rows, columns, offset)
        return allowed

    def dense(self, n_query: int, n_key: int, device: torch.device | str = "cpu") -> Allowed:
        """Return the whole mask as a tensor, for small sizes and for the dense backend."""
        rows, columns = torch.arange(n_query, device=device), torch.arange(n_key, device=device)
        return self.block(rows, columns, n_key - n_query)

    def visible_to_any(self, start: int, stop: int, offset: int, n_key: int) -> tuple[int, int]:
        """Return a range of keys outside of which every row of ``start:stop`` is masked."""
        return _intersect([part.visible_to_any(start, stop, offset) for part in self.parts], n_key)

    def visible_to_all(self, start: int, stop: int, offset: int, n_key: int) -> tuple[int, int]:
        """Return a range of keys inside of which no row of ``start:stop`` is masked."""
        return _intersect([part.visible_to_all(start, stop, offset) for part in self.parts], n_key)

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts)) or "full()"

    def __str__(self) -> str:
        n_query, n_key, batch, heads = _printed_size(self)
        height, width = min(n_query, MAX_PRINTED), min(n_key, MAX_PRINTED)
        bound = self.bind(batch, heads, n_query, n_key)
        grid = bound.block(torch.arange(height), torch.arange(width), n_key - n_query)[0, 0]
        notes = [f"the first {height}×{width} of {n_query}×{n_key}"] if (height, width) != (n_query, n_key) else []
        notes += ["first batch item and head"] if (batch, heads) != (1, 1) else []
        title = f"{self!r}: query ↓ key →" + (f" ({', '.join(notes)})" if notes else "")
        return "\n".join([title, *(" ".join("■" if cell else "·" for cell in row) for row in grid.tolist())])


FULL = Mask()


@named
def full() -> Mask:
    """Every query may attend to every key."""
    return FULL


@named
def causal() -> Mask:
    """Keys up to the query's own position."""
    return Mask((Causal(),))


@checked
def window(width: int) -> Mask:
    """Keys less than ``width`` away, on either side; combine with ``causal()`` for a sliding window."""
    if width < 1:
        raise MaskError(f"window({width}): a window of less than one key masks everything; give at least 1")
    return Mask((Window(width),))


@checked
def padding(lengths: Num[Tensor, "..."] | Sequence[int | float], side: Side = "right") -> Mask:
    """Real keys only: ``lengths`` counts them for each batch item; the padding is on ``side``."""
    counts = torch.as_tensor(lengths)
    if counts.is_floating_point() or counts.ndim != 1 or not len(counts) or int(counts.min()) < 0:
        raise MaskError(f"padding needs one whole number ≥ 0 per batch item, got {lengths}")
    return Mask((Padding(counts, side, longest=int(counts.max())),))


@checked
def documents(ids: Num[Tensor, "..."] | Sequence[int] | Sequence[Sequence[int]]) -> Mask:
    """Packed documents: a query attends only to keys with its own document id."""
    tensor = torch.as_tensor(ids)
    if tensor.is_floating_point() or tensor.ndim not in (1, 2):
        raise MaskError(f"documents needs integer ids of shape (key) or (batch, key), got shape {tuple(tensor.shape)}")
    return Mask((Documents(tensor if tensor.ndim == 2 else tensor[None]),))


@checked
def dense(mask: Shaped[Tensor, "..."]) -> Mask:
    """Any mask: True (or 0.0) where a query may attend, False (or −inf) elsewhere. Three axes start with batch."""
    if not 2 <= mask.ndim <= 4:
        raise MaskError(f"a dense mask has 2 to 4 axes, (query, key) last; got shape {tuple(mask.shape)}")
    lifted = mask[(None,) * (4 - mask.ndim)] if mask.ndim != 3 else mask[:, None]
    return Mask((Dense(_as_bool(lifted)),))


def _as_bool(mask: Tensor) -> Bool[Tensor, "..."]:
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        raise MaskError(
            f"a dense mask of {mask.dtype} is ambiguous (keep or mask?); use bool, True where a query may attend"
        )
    nan = mask.isnan()
    if nan.any():
        where = tuple(nan.nonzero()[0].tolist())
        raise MaskError(f"the mask has {int(nan.sum())} NaN, the first at {where}; use 0 to attend and −inf to mask")
    finite = (mask != 0) & ~mask.isneginf()
    if finite.any():
        value = float(mask[finite][0])
        raise MaskError(f"the mask has {value:g}, neither 0 nor −inf; numbers to add to scores go to Scores(bias=…)")
    return mask == 0


def _intersect(ranges: list[Bounds], n_key: int) -> tuple[int, int]:
    low = max([0.0, *(low for low, _ in ranges)])
    high = min([float(n_key), *(high for _, high in ranges)])
    return (int(low), int(high)) if high > low else (0, 0)


def _printed_size(mask: Mask) -> tuple[int, int, int, int]:
    """Queries, keys, batch and heads for printing: as the parts imply, or eight by eight."""
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
