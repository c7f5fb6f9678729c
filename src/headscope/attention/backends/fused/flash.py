"""The one pass over all keys, on the kernel that suits the GPU: Hopper's own, or the one for every other."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observation import Distance, PerRow, Statistic

if TYPE_CHECKING:
    from headscope.attention.backends.fused.host import Call

GLUON = "3.6"
"""The release of Triton whose Gluon the Hopper kernel is written in and tested with; Gluon is experimental."""


def interpreted() -> bool:
    """Triton's interpreter runs the kernels on the CPU: slow, and good for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@dataclass(frozen=True)
class Flash:
    """What the one pass gives; of the strongest key only the tile it is in."""

    output: Float[Tensor, "batch head query d_value"]
    logsumexp: PerRow
    entropy: PerRow | None
    distance: Distance | None
    weight: PerRow | None
    tile: Int[Tensor, "batch head query"] | None
    tile_size: int

    @property
    def places(self) -> tuple[Tensor, ...]:
        """Where the kernels write. What nobody asked for is not written, so any tensor stands in."""
        unasked = self.logsumexp
        mean, spread = self.distance or (unasked, unasked)
        others = (self.entropy, mean, spread, self.weight, self.tile)
        return self.output, unasked, *(unasked if other is None else other for other in others)

    @property
    def asked(self) -> dict[str, bool]:
        return {
            "ENTROPY": self.entropy is not None,
            "DISTANCE": self.distance is not None,
            "STRONGEST": self.weight is not None,
        }


@dataclass(frozen=True)
class Shape:
    """Tile sizes of the kernel for every GPU."""

    rows: int
    keys: int
    warps: int
    stages: int


def shape_for(d_head: int, dtype: torch.dtype, statistics: Set[Statistic]) -> Shape:
    """Tiles that measured best on an H200 at d_head 128, and that fit its registers elsewhere."""
    if interpreted():
        return Shape(64, 64, 4, 1)
    if dtype == torch.float32:
        return Shape(16, 32, 8, 1) if d_head > 128 else Shape(32, 32, 8 if d_head > 64 else 4, 1)
    if d_head > 128:
        return Shape(128, 64, 8, 2)
    # The moments of the distance need registers that 256 rows leave no room for.
    return Shape(128, 64, 8, 3) if "distance" in statistics else Shape(256, 64, 8, 3)


def attend(call: Call, statistics: Set[Statistic]) -> Flash:
    if refuse_hopper(call) is None:
        return _on_hopper(call, statistics)
    return _anywhere(call, statistics)


def refuse_hopper(call: Call) -> str | None:
    """Why Hopper's kernel will not take the call, or None."""
    if interpreted() or not _is_hopper(call.q.device):
        return "it needs a GPU of compute capability 9"
    if _triton() != GLUON:
        return f"it is tested with Triton {GLUON} only"
    if call.q.dtype == torch.float32 or call.q.shape[-1] > 128:
        return "it takes half precision and d_head up to 128"
    if call.softcap is not None:
        return "it knows no softcap"
    if not all(_copies(tensor) for tensor in (call.q, call.k, call.v)):
        return "the copy engine steps in units of 16 bytes"
    return None


@lru_cache
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


@lru_cache
def _triton() -> str:
    return ".".join(importlib.metadata.version("triton").split(".")[:2])


def _copies(tensor: Tensor) -> bool:
    steps = tensor.stride()[:3]
    return tensor.data_ptr() % 16 == 0 and all(step > 0 and step * tensor.element_size() % 16 == 0 for step in steps)


def _room(call: Call, statistics: Set[Statistic], tile_size: int) -> Flash:
    strongest = "strongest" in statistics
    return Flash(
        output=torch.empty(call.q.shape, dtype=call.v.dtype, device=call.q.device),
        logsumexp=call.blank(),
        entropy=call.blank() if "entropy" in statistics else None,
        distance=Distance(call.blank(), call.blank()) if "distance" in statistics else None,
        weight=call.blank() if strongest else None,
        tile=call.blank(torch.int32) if strongest else None,
        tile_size=tile_size,
    )


def _on_hopper(call: Call, statistics: Set[Statistic]) -> Flash:
    from headscope.attention.backends.fused import hopper

    rows, keys = hopper.ROWS.value, hopper.KEYS.value
    flash = _room(call, statistics, keys)
    batch, n_heads, n_query, d_head = call.q.shape
    n_kv_heads, n_key = call.k.shape[1:3]
    width = 64 if d_head <= 64 else 128
    tiles = (hopper.described(tensor, tall, width) for tensor, tall in ((call.q, rows), (call.k, keys), (call.v, keys)))
    hopper.attend[(-(-n_query // rows) * n_heads * batch,)](
        *tiles, *flash.places, call.seen.low, call.seen.high, n_query, n_key, n_kv_heads, call.scale, call.seen.stride,
        *flash.output.stride()[:3], GROUP=n_heads // n_kv_heads, D=d_head, DP=width, HAS_LOW=call.seen.has_low,
        **flash.asked, num_warps=4, maxnreg=hopper.REGISTERS,
    )  # fmt: skip
    return flash


def _anywhere(call: Call, statistics: Set[Statistic]) -> Flash:
    from headscope.attention.backends.fused import kernels

    batch, n_heads, n_query, d_head = call.q.shape
    n_kv_heads, n_key = call.k.shape[1:3]
    shape = shape_for(d_head, call.q.dtype, statistics)
    flash = _room(call, statistics, shape.keys)
    options: Mapping[str, object] = {"num_warps": shape.warps, "num_stages": shape.stages}
    kernels.attend[(-(-n_query // shape.rows) * n_heads * batch,)](
        call.q, call.k, call.v, *flash.places, call.seen.low, call.seen.high,
        n_query, n_key, n_kv_heads, call.scale, call.softcap or 0.0, call.seen.stride,
        *call.q.stride()[:3], *call.k.stride()[:3], *call.v.stride()[:3], *flash.output.stride()[:3],
        BM=shape.rows, BN=shape.keys, HAS_LOW=call.seen.has_low, **flash.asked, PRECISION=call.precision,
        **call.common, **options,
    )  # fmt: skip
    return flash
