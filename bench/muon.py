"""Muon (Jordan 2024) for many matrices of few shapes, the optimizer of the embedded model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

A, B, C = 3.4445, -4.7750, 2.0315  # the quintic's coefficients, Jordan's
ROUNDS, EPS = 5, 1e-7


class Muon(torch.optim.Optimizer):
    """Momentum whose matrix updates are orthogonalised, scaled to the size of AdamW's, with decoupled weight decay.

    As ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"`` (Jordan 2024; Liu et al. 2025), which launches some
    thirty kernels for every matrix; here those of one shape are orthogonalised together.
    """

    def __init__(self, weights: Iterable[Tensor], *, lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(list(weights), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # it runs no closure
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for weights in shapes.values():
                self._update(weights, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        grads = [weight.grad for weight in weights if weight.grad is not None]
        momentum = group["momentum"]
        buffers = [self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight)) for weight in weights]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        updates = _orthogonal(torch.stack(torch._foreach_lerp(grads, buffers, momentum)))
        rate = group["lr"] * 0.2 * max(weights[0].shape) ** 0.5
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, list(updates.to(weights[0].dtype).unbind()), alpha=-rate)


def _orthogonal(matrices: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """Bring all singular values near one, by Newton and Schulz's iteration in bfloat16."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=EPS)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x
