"""Rotary position embedding (RoPE): rotate q and k by angles that grow with position, so q·k depends on distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.checked import checked
from headscope.errors import ShapeError


class _Table(NamedTuple):
    """The cosine and sine of every position's angles, one column per rotated pair."""

    cos: Float[Tensor, "position pair"]
    sin: Float[Tensor, "position pair"]


@checked
@dataclass(frozen=True)
class Rope:
    """Rotary embedding. ``pairing="half"`` rotates entries i and i + d/2 (Llama), ``"interleaved"`` 2i and 2i + 1."""

    d_rotary: int
    base: float = 10_000.0
    pairing: Literal["half", "interleaved"] = "half"

    def __post_init__(self) -> None:
        if self.d_rotary < 2 or self.d_rotary % 2:
            raise ShapeError(f"RoPE rotates pairs of entries: d_rotary={self.d_rotary} must be even and at least 2")

    def frequencies(self) -> Float[Tensor, " pair"]:
        """Return the angle between neighbouring positions for each pair, in radians."""
        pairs = self.d_rotary // 2
        return torch.pow(self.base, -torch.arange(pairs, dtype=torch.float64) / pairs)

    def table(self, positions: Int[Tensor, " position"], dtype: torch.dtype = torch.float32) -> _Table:
        """Compute cosines and sines for these positions, one column per pair."""
        angles = positions[:, None].to(torch.float64) * self.frequencies().to(positions.device)
        return _Table(angles.cos().to(dtype), angles.sin().to(dtype))

    def span(self, start: int, stop: int, like: Float[Tensor, "..."]) -> _Table:
        """Return the table of positions ``start:stop``, on the device and in the dtype of ``like``."""
        if torch.compiler.is_compiling():
            return self.table(torch.arange(start, stop, device=like.device), like.dtype)
        cos, sin = _cached_table(self, 1 << max(stop - 1, 255).bit_length(), like.device, like.dtype)
        return _Table(cos[start:stop], sin[start:stop])

    def turn(self, x: Float[Tensor, "batch head position d"], table: _Table) -> Float[Tensor, "batch head position d"]:
        """Rotate the first ``d_rotary`` entries of every head, and leave the rest unchanged."""
        rotated, rest = x[..., : self.d_rotary], x[..., self.d_rotary :]
        if self.pairing == "half":
            first, second = rotated.chunk(2, dim=-1)
            out = torch.cat(_rotate(first, second, table), dim=-1)
        else:
            out = torch.stack(_rotate(rotated[..., 0::2], rotated[..., 1::2], table), dim=-1).flatten(-2)
        return torch.cat((out, rest), dim=-1) if rest.shape[-1] else out


def _rotate(first: Tensor, second: Tensor, table: _Table) -> tuple[Tensor, Tensor]:
    return first * table.cos - second * table.sin, second * table.cos + first * table.sin


@lru_cache(maxsize=16)
def _cached_table(rope: Rope, length: int, device: torch.device, dtype: torch.dtype) -> _Table:
    """Cache one table for all layers and calls, outside of inference mode so that training can use it later."""
    with torch.inference_mode(False), torch.no_grad():
        return rope.table(torch.arange(length, device=device), dtype)
