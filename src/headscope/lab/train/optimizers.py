"""The optimizers of a training run."""

from __future__ import annotations

import torch

from headscope.lab.train.gpt import GPT
from headscope.lab.train.muon import Muon
from headscope.lab.train.options import TrainingOptions


def optimizers(model: GPT, options: TrainingOptions, *, fused: bool) -> list[torch.optim.Optimizer]:
    """AdamW with weight decay on matrices only; with Muon, the blocks' matrices have that instead (Jordan 2024)."""
    orthogonal = [weight for weight in model.blocks.parameters() if options.optimizer == "muon" and weight.ndim == 2]
    taken = set(map(id, orthogonal))
    matrices = [weight for weight in model.parameters() if weight.ndim >= 2 and id(weight) not in taken]
    gains = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": gains, "weight_decay": 0.0}]
    found: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=fused)
    ]
    if orthogonal:
        found.append(Muon(orthogonal, lr=options.learning_rate, weight_decay=options.weight_decay))
    return found
