"""A mask as one interval of keys a row: causality, windows, padding and packed documents all are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from headscope.attention.masks import Causal, Documents, Mask, Padding, Part, Window, causal, full


@dataclass(frozen=True)
class Intervals:
    """Row i sees the keys ``low[i] ≤ j < high[i]``; one row of bounds serves all batch items where they agree."""

    low: Int[Tensor, "item query"]
    high: Int[Tensor, "item query"]
    has_low: bool

    @property
    def stride(self) -> int:
        return self.low.shape[1] if len(self.low) > 1 else 0


def refuse_mask(mask: Mask) -> str | None:
    """Why a mask is no interval of keys a row, or None."""
    for part in mask.parts:
        if isinstance(part, Documents) and not _in_runs(part):
            return "fused needs the keys of each document next to each other, and these ids come back after another"
        if not isinstance(part, Causal | Window | Padding | Documents):
            return f"fused needs one stretch of keys a row, and {part!r} may have gaps"
    return None


def intervals(mask: Mask, n_query: int, n_key: int, device: torch.device) -> Intervals:
    """The bounds that all parts of a mask leave together. Those of causality alone are kept: every layer asks again."""
    if mask.is_full or mask.is_causal:
        return _plain(mask.is_causal, n_query, n_key, device)
    return _intervals(mask, n_query, n_key, device)


@lru_cache(maxsize=4)
def _plain(is_causal: bool, n_query: int, n_key: int, device: torch.device) -> Intervals:
    return _intervals(causal() if is_causal else full(), n_query, n_key, device)


def _intervals(mask: Mask, n_query: int, n_key: int, device: torch.device) -> Intervals:
    place = torch.arange(n_key - n_query, n_key, dtype=torch.int32, device=device)[None]
    low, high = torch.zeros_like(place), torch.full_like(place, n_key)
    for part in mask.parts:
        part_low, part_high = _bounds(part, place, n_key)
        low, high = torch.maximum(low, part_low), torch.minimum(high, part_high)
    has_low = any(not isinstance(part, Causal) for part in mask.parts)
    items = max(len(low), len(high))
    low, high = (bound.expand(items, -1).to(torch.int32).contiguous() for bound in (low, high))
    return Intervals(low, high.clamp_(min=0), has_low)


def _bounds(part: Part, place: Int[Tensor, "1 query"], n_key: int) -> tuple[Tensor, Tensor]:
    nothing, everything = torch.zeros_like(place), torch.full_like(place, n_key)
    if isinstance(part, Causal):
        return nothing, place + 1
    if isinstance(part, Window):
        return place - (part.width - 1), place + part.width
    if isinstance(part, Padding):
        lengths = part.lengths.to(place)[:, None]
        return (nothing, lengths) if part.side == "right" else (n_key - lengths, everything)
    assert isinstance(part, Documents), "refuse_mask lets nothing else through"
    return _document_bounds(part.ids.to(place.device), place)


def _document_bounds(ids: Int[Tensor, "item key"], place: Int[Tensor, "1 query"]) -> tuple[Tensor, Tensor]:
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run = begins.cumsum(1)
    wanted = run[:, place[0].long()].contiguous()
    low, high = torch.searchsorted(run, wanted), torch.searchsorted(run, wanted, right=True)
    return low.to(place.dtype), high.to(place.dtype)


def _in_runs(part: Documents) -> bool:
    return all(len(torch.unique_consecutive(row)) == len(torch.unique(row)) for row in part.ids)
