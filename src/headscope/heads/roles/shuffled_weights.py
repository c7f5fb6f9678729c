"""Shuffle every weight matrix of a model for a while: the control for what training did not teach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headscope.attention.progress import uninterrupted
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weights_put_back


@contextmanager
def shuffled_weights(model: OpenModel, seed: int) -> Iterator[None]:
    """Shuffle the entries of every matrix inside the block and restore them bit by bit afterwards.

    Norms and biases stay. The model is changed in place, so nothing else may use it meanwhile.
    """
    generator = torch.Generator().manual_seed(seed)
    kept = [(weight, weight.detach().cpu().clone()) for weight in model.model.parameters() if weight.ndim >= 2]
    with weights_put_back(model.model), uninterrupted():
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
