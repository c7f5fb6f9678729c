"""Masks as one interval of keys per row: causal, window, padding and packed documents, and any of them together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.attention.masks import Causal, Documents, Mask, Padding, Part, Window


@dataclass(frozen=True)
class Intervals:
    """Row i may attend to the keys ``low[i] ≤ j < high[i]``. Batch items share one row of bounds where they agree."""

    low: Int[Tensor, "item query"]
    high: Int[Tensor, "item query"]
    has_low: bool

    @property
    def stride(self) -> int:
        return self.low.shape[1] if len(self.low) > 1 else 0


def refuse_mask(mask: Mask) -> str | None:
    """Return why a mask is not one interval of keys per row, or None."""
    for part in mask.parts:
        if isinstance(part, Documents) and not _in_runs(part):
            return "fused needs the keys of each document next to each other, and these ids are mixed"
        if not isinstance(part, Causal | Window | Padding | Documents):
            return f"fused needs one interval of keys per row, and {part!r} may have gaps"
    return None


def intervals(mask: Mask, n_query: int, n_key: int, device: torch.device) -> Intervals:
    """Return the keys that all parts of a mask allow. Those of a full or causal mask are cached for the next layers."""
    compute = _cached_intervals if mask.is_full or mask.is_causal else _intervals
    return compute(mask, n_query, n_key, device)


def _intervals(mask: Mask, n_query: int, n_key: int, device: torch.device) -> Intervals:
    position = torch.arange(n_key - n_query, n_key, dtype=torch.int32, device=device)[None]
    low, high = torch.zeros_like(position), torch.full_like(position, n_key)
    for part in mask.parts:
        part_low, part_high = _bounds(part, position, n_key)
        low, high = torch.maximum(low, part_low), torch.minimum(high, part_high)
    has_low = any(not isinstance(part, Causal) for part in mask.parts)
    items = max(len(low), len(high))
    low, high = (bound.expand(items, -1).to(torch.int32).contiguous() for bound in (low, high))
    return Intervals(low, high.clamp_(min=0), has_low)


_cached_intervals = lru_cache(maxsize=4)(_intervals)


def _bounds(part: Part, position: Int[Tensor, "1 query"], n_key: int) -> tuple[Tensor, Tensor]:
    first, end = torch.zeros_like(position), torch.full_like(position, n_key)
    if isinstance(part, Causal):
        return first, position + 1
    if isinstance(part, Window):
        return position - (part.width - 1), position + part.width
    if isinstance(part, Padding):
        lengths = part.lengths.to(position)[:, None]
        return (first, lengths) if part.side == "right" else (n_key - lengths, end)
    assert isinstance(part, Documents), "refuse_mask returns a reason for every other part"
    return _document_bounds(part.ids.to(position.device), position)


def _document_bounds(ids: Int[Tensor, "item key"], position: Int[Tensor, "1 query"]) -> tuple[Tensor, Tensor]:
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run = begins.cumsum(1)
    own = run[:, position[0].long()].contiguous()
    low, high = torch.searchsorted(run, own), torch.searchsorted(run, own, right=True)
    return low.to(position.dtype), high.to(position.dtype)


def _in_runs(part: Documents) -> bool:
    return all(len(torch.unique_consecutive(row)) == len(torch.unique(row)) for row in part.ids)
