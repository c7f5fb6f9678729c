"""Launch the flash-attention pass with statistics: the kernel for Hopper GPUs, or the one for all others."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.attention.observation import Distance, PerRow, Statistic

if TYPE_CHECKING:
    from headscope.attention.backends.fused.host import KernelInputs

GLUON = "3.6"
"""The Triton release that the Hopper kernel is tested with: it is written in Gluon, which is experimental."""


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels on the CPU, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def on_gpu_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Make a tensor's GPU the current one: Triton launches there, and in a new thread that is the first one."""
    own: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return own


@dataclass(frozen=True)
class FlashResult:
    """The results of the pass. Of the strongest key, only the tile that it is in."""

    output: Float[Tensor, "batch head query d_value"]
    logsumexp: PerRow
    entropy: PerRow | None
    distance: Distance | None
    weight: PerRow | None
    tile: Int[Tensor, "batch head query"] | None
    tile_size: int

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that the kernels write to; for statistics that were not requested, any tensor will do."""
        unused = self.logsumexp
        mean, std = self.distance or (unused, unused)
        others = (self.entropy, mean, std, self.weight, self.tile)
        return self.output, self.logsumexp, *(unused if other is None else other for other in others)

    @property
    def requested(self) -> dict[str, bool]:
        """Which statistics the kernels are compiled with."""
        return {
            "ENTROPY": self.entropy is not None,
            "DISTANCE": self.distance is not None,
            "STRONGEST": self.weight is not None,
        }


@dataclass(frozen=True)
class TileShape:
    """Tile sizes and launch options of the kernel for any GPU."""

    rows: int
    keys: int
    warps: int
    stages: int


@lru_cache
def has_much_shared_memory(device: torch.device) -> bool:
    """Whether a block may use 160 KiB: A100, H100 and their successors allow it; other GPUs have 99 KiB."""
    if device.type != "cuda":
        return True
    properties = torch.cuda.get_device_properties(device)
    bytes_per_block: int = getattr(properties, "shared_memory_per_block_optin", 0)  # PyTorch has none for AMD: 64 KiB
    return bytes_per_block >= 160 * 2**10


def tile_shape(d_head: int, dtype: torch.dtype, statistics: Set[Statistic], much_memory: bool = True) -> TileShape:
    """Return the tiles measured fastest on an H200 at d_head 128, or that fit memory and registers elsewhere."""
    if interpreted():
        return TileShape(64, 64, 4, 1)
    if dtype == torch.float32:
        return TileShape(16, 32, 8, 1) if d_head > 128 else TileShape(32, 32, 8 if d_head > 64 else 4, 1)
    if d_head > 128:
        return TileShape(128, 64, 8, 2) if much_memory else TileShape(64, 32, 4, 2)
    # With 256 rows there are no registers left for the moments of the distance.
    tall = "distance" not in statistics and (much_memory or d_head <= 64)
    return TileShape(256 if tall else 128, 64, 8, 3)


def attend(inputs: KernelInputs, statistics: Set[Statistic]) -> FlashResult:
    """Run the flash-attention pass on the fastest kernel that can."""
    return _on_any_gpu(inputs, statistics) if refuse_hopper(inputs) else _on_hopper(inputs, statistics)


def refuse_hopper(inputs: KernelInputs) -> str | None:
    """Return why the Hopper kernel cannot run, or None."""
    if interpreted() or not _is_hopper(inputs.q.device):
        return "it needs a GPU of compute capability 9"
    if _triton() != GLUON:
        return f"it is tested with Triton {GLUON} only"
    if inputs.q.dtype == torch.float32 or inputs.q.shape[-1] > 128:
        return "it takes half precision and d_head up to 128"
    if inputs.softcap is not None:
        return "it has no softcap"
    if not all(_tma_can_copy(tensor) for tensor in (inputs.q, inputs.k, inputs.v)):
        return "the tensor memory accelerator needs addresses and strides in units of 16 bytes"
    return None


@lru_cache
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


@lru_cache
def _triton() -> str:
    return ".".join(importlib.metadata.version("triton").split(".")[:2])


def _tma_can_copy(tensor: Tensor) -> bool:
    steps = tensor.stride()[:3]
    return tensor.data_ptr() % 16 == 0 and all(step > 0 and step * tensor.element_size() % 16 == 0 for step in steps)


def _empty(inputs: KernelInputs, statistics: Set[Statistic], tile_size: int) -> FlashResult:
    strongest = "strongest" in statistics
    return FlashResult(
        output=torch.empty(inputs.q.shape, dtype=inputs.v.dtype, device=inputs.q.device),
        logsumexp=inputs.empty(),
        entropy=inputs.empty() if "entropy" in statistics else None,
        distance=Distance(inputs.empty(), inputs.empty()) if "distance" in statistics else None,
        weight=inputs.empty() if strongest else None,
        tile=inputs.empty(torch.int32) if strongest else None,
        tile_size=tile_size,
    )


def _on_hopper(inputs: KernelInputs, statistics: Set[Statistic]) -> FlashResult:
    from headscope.attention.backends.fused import hopper

    rows, keys = hopper.ROWS.value, hopper.KEYS.value
    result = _empty(inputs, statistics, keys)
    batch, n_heads, n_query, d_head = inputs.q.shape
    n_kv_heads, n_key = inputs.k.shape[1:3]
    width = 64 if d_head <= 64 else 128
    tiles = (
        hopper.described(tensor, tall, width) for tensor, tall in ((inputs.q, rows), (inputs.k, keys), (inputs.v, keys))
    )
    hopper.attend[(-(-n_query // rows) * n_heads * batch,)](
        *tiles, *result.outputs, inputs.visible.low, inputs.visible.high, n_query, n_key, n_kv_heads, inputs.scale,
        inputs.visible.stride, *result.output.stride()[:3], GROUP=n_heads // n_kv_heads, D=d_head, DP=width,
        HAS_LOW=inputs.visible.has_low, **result.requested, num_warps=4, maxnreg=hopper.REGISTERS,
    )  # fmt: skip
    return result


def _on_any_gpu(inputs: KernelInputs, statistics: Set[Statistic]) -> FlashResult:
    from headscope.attention.backends.fused import kernels

    batch, n_heads, n_query, d_head = inputs.q.shape
    n_kv_heads, n_key = inputs.k.shape[1:3]
    shape = tile_shape(d_head, inputs.q.dtype, statistics, has_much_shared_memory(inputs.q.device))
    result = _empty(inputs, statistics, shape.keys)
    kernels.attend[(-(-n_query // shape.rows) * n_heads * batch,)](
        inputs.q, inputs.k, inputs.v, *result.outputs, inputs.visible.low, inputs.visible.high,
        n_query, n_key, n_kv_heads, inputs.scale, inputs.softcap or 0.0, inputs.visible.stride,
        *inputs.q.stride()[:3], *inputs.k.stride()[:3], *inputs.v.stride()[:3], *result.output.stride()[:3],
        BM=shape.rows, BN=shape.keys, HAS_LOW=inputs.visible.has_low, **result.requested, PRECISION=inputs.precision,
        **inputs.common, num_warps=shape.warps, num_stages=shape.stages,
    )  # fmt: skip
    return result
