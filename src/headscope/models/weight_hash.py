"""Identify a model's weights by a SHA-256 hash."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def weight_hash(model: nn.Module, dtype: torch.dtype | None = None) -> str:
    """SHA-256 over the names, types, shapes and bytes of the state dict.

    With ``dtype``, of the floating-point weights converted to it: float32 identifies a model loaded in half precision.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        wanted = tensor.to(dtype or tensor.dtype) if tensor.is_floating_point() else tensor
        digest.update(f"{name} {wanted.dtype} {tuple(wanted.shape)}\n".encode())
        flat = wanted.detach().contiguous().cpu().flatten()
        if flat.numel():
            digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()
