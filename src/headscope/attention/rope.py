"""Rotary position embedding: q and k are turned by an angle that grows with position, so q·k depends on distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.errors import ShapeError


@dataclass(frozen=True)
class Linear:
    """Positions squeezed by a factor (Chen et al. 2023)."""

    factor: float

    def frequencies(self, plain: Float[Tensor, " pair"], base: float) -> Float[Tensor, " pair"]:
        return plain / self.factor


@dataclass(frozen=True)
class NTK:
    """A larger base, so that fast pairs keep their speed and slow ones are stretched."""

    factor: float

    def frequencies(self, plain: Float[Tensor, " pair"], base: float) -> Float[Tensor, " pair"]:
        pairs = len(plain)
        stretched = base * self.factor ** (pairs / max(pairs - 1, 1))
        return stretched ** (-torch.arange(pairs, dtype=plain.dtype) / pairs)


@dataclass(frozen=True)
class Llama3:
    """Slow pairs divided by the factor, fast ones kept, a ramp between (Llama 3.1)."""

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    trained_context: int = 8192

    def frequencies(self, plain: Float[Tensor, " pair"], base: float) -> Float[Tensor, " pair"]:
        turns = self.trained_context * plain / (2 * math.pi)
        keep = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return plain * keep + plain / self.factor * (1 - keep)


Scaling = Linear | NTK | Llama3


@dataclass(frozen=True)
class Rope:
    """``pairing="half"`` turns entry i with entry i + d/2 (Llama, GPT-NeoX); ``"interleaved"`` turns 2i with 2i + 1."""

    d_rotary: int
    base: float = 10_000.0
    pairing: Literal["half", "interleaved"] = "half"
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.d_rotary < 2 or self.d_rotary % 2:
            raise ShapeError(f"RoPE turns pairs of numbers: d_rotary={self.d_rotary} must be even and at least 2")
        if self.pairing not in ("half", "interleaved"):
            raise ShapeError(f"pairing={self.pairing!r} is not known; use 'half' (Llama) or 'interleaved' (GPT-J)")

    def frequencies(self) -> Float[Tensor, " pair"]:
        """How far each pair turns from one position to the next, in radians."""
        pairs = self.d_rotary // 2
        plain = self.base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
        return plain if self.scaling is None else self.scaling.frequencies(plain, self.base)

    def table(self, positions: Int[Tensor, " position"]) -> tuple[Tensor, Tensor]:
        """Cosines and sines for these positions, in float32, one column a pair."""
        angles = positions[:, None].to(torch.float64) * _frequencies(self).to(positions.device)
        return angles.cos().float(), angles.sin().float()

    def turn(
        self, x: Float[Tensor, "batch head position d"], cos: Float[Tensor, "position pair"], sin: Float[Tensor, "..."]
    ) -> Float[Tensor, "batch head position d"]:
        """x with the first ``d_rotary`` entries of every head turned to their positions; the rest is left as it is."""
        turned, rest = x[..., : self.d_rotary], x[..., self.d_rotary :]
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        if self.pairing == "half":
            first, second = turned.chunk(2, dim=-1)
            out = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        else:
            first, second = turned[..., 0::2], turned[..., 1::2]
            out = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
        return torch.cat((out, rest), dim=-1) if rest.shape[-1] else out


@lru_cache(maxsize=32)
def _frequencies(rope: Rope) -> Tensor:
    return rope.frequencies()
