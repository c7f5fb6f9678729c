"""A randomised model: the same weights, each matrix shuffled. Whatever it still seems to do, training did not teach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headscope.models.protocol import OpenModel


@contextmanager
def randomised(model: OpenModel, seed: int) -> Iterator[None]:
    """Inside the block every matrix of the model is shuffled; afterwards every bit is as it was.

    Norms and biases stay. The model is changed in place, so nobody else may use it meanwhile.
    """
    generator = torch.Generator().manual_seed(seed)
    kept = [(weight, weight.detach().cpu().clone()) for weight in model.model.parameters() if weight.ndim >= 2]
    try:
        with torch.no_grad():
            for weight, own in kept:
                order = torch.randperm(weight.numel(), generator=generator)
                weight.copy_(own.flatten()[order].view(weight.shape))
        yield
    finally:
        with torch.no_grad():
            for weight, own in kept:
                weight.copy_(own)
