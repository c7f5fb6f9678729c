"""Convert trained MHA to GQA or MQA by averaging KV heads within groups, and measure the loss.

This is the conversion of Ainslie et al. 2023, who then train a little further; ``share`` can be followed by training.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from headscope.attention.convert import like
from headscope.attention.module import MultiHeadAttention
from headscope.errors import ShapeError

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class _Grouped:
    """One number of KV heads, its loss, and the bytes of its cache per token."""

    n_kv_heads: int
    attention: str
    loss: float
    kv_bytes_per_token: int
    parameters: int


@torch.no_grad()
def share_heads(attention: MultiHeadAttention, n_kv_heads: int) -> MultiHeadAttention:
    """The same attention with fewer KV heads, each the mean of the ones it replaces."""
    before = attention.n_kv_heads
    if n_kv_heads < 1 or before % n_kv_heads:
        raise ShapeError(f"{before} KV heads cannot be averaged into {n_kv_heads}; use a divisor of {before}")
    out_bias = attention.o_proj.bias is not None
    shared = like(attention, n_heads=attention.n_heads, n_kv_heads=n_kv_heads, out_bias=out_bias)
    kept = {
        name: weight for name, weight in attention.state_dict().items() if not name.startswith(("k_proj", "v_proj"))
    }
    for name in ("k_proj", "v_proj"):
        projection = getattr(attention, name)
        for part, weight in projection.named_parameters():
            groups = weight.view(n_kv_heads, before // n_kv_heads, attention.d_head, *weight.shape[1:])
            kept[f"{name}.{part}"] = groups.mean(dim=1).flatten(0, 1)
    shared.load_state_dict(kept)
    return shared


def share(model: Model, n_kv_heads: int) -> Model:
    """A copy of the model in which every attention module has this many KV heads."""
    sharing = copy.deepcopy(model)
    found = [(name, module) for name, module in sharing.named_modules() if isinstance(module, MultiHeadAttention)]
    if not found:
        raise ShapeError(f"{type(model).__name__} has no MultiHeadAttention whose heads could be shared")
    for name, module in found:
        parent, _, child = name.rpartition(".")
        setattr(sharing.get_submodule(parent), child, share_heads(module, n_kv_heads))
    return sharing


def kv_bytes_per_token(model: nn.Module) -> int:
    """Bytes of the KV cache of all layers per token, in half precision."""
    sites = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    return sum(2 * 2 * site.n_kv_heads * site.d_head for site in sites)


def by_groups(model: Model, loss: Callable[[Model], float]) -> list[_Grouped]:
    """Loss and cache for each possible number of KV heads, from all down to one."""
    first = next((module for module in model.modules() if isinstance(module, MultiHeadAttention)), None)
    if first is None:
        raise ShapeError(f"{type(model).__name__} has no MultiHeadAttention whose heads could be shared")
    counts = [count for count in range(first.n_kv_heads, 0, -1) if first.n_kv_heads % count == 0]
    return [_measured(share(model, count), count, first.n_heads, loss) for count in counts]


def _measured(model: Model, count: int, n_heads: int, loss: Callable[[Model], float]) -> _Grouped:
    kind = "MHA" if count == n_heads else "MQA" if count == 1 else "GQA"
    with torch.no_grad():
        value = loss(model)
    parameters = sum(weight.numel() for weight in model.parameters())
    return _Grouped(count, kind, round(value, 4), kv_bytes_per_token(model), parameters)
