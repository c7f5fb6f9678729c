"""Which weights: a model's parameters in 64 letters."""

from __future__ import annotations

import hashlib

from torch import nn


def fingerprint(model: nn.Module) -> str:
    """A hash of every weight, the same in every precision that holds them exactly."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
