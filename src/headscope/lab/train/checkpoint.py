"""Save and load the state of a training run in one safetensors file, replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.files import write_atomic

MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: its step, its recipe, and all tensors needed to resume."""

    step: int
    recipe: dict[str, Any]
    tensors: dict[str, Tensor]


def capture(model: nn.Module, *optimizers: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Collect weights and optimizer moments by weight name."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight.{name}"] = weight.detach().cpu().contiguous()
        state = _owner(weight, optimizers).state[weight]
        for moment in MOMENTS:
            if moment in state:
                tensors[f"{moment}.{name}"] = state[moment].cpu().contiguous()
    return tensors


@torch.no_grad()
def restore(checkpoint: Checkpoint, model: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
    """Load weights and optimizer state, so that training continues exactly."""
    for name, weight in model.named_parameters():
        weight.copy_(checkpoint.tensors[f"weight.{name}"])
        kept = [moment for moment in MOMENTS if f"{moment}.{name}" in checkpoint.tensors]
        optimizer = _owner(weight, optimizers)
        state = optimizer.state[weight] if kept else {}
        for moment in kept:
            state[moment] = checkpoint.tensors[f"{moment}.{name}"].to(weight.device)
        if "exp_avg" in kept:
            where = weight.device if optimizer.defaults.get("fused") else "cpu"
            state["step"] = torch.tensor(float(checkpoint.step), device=where)


def _owner(weight: Tensor, optimizers: Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """The optimizer that updates this weight."""
    return next(
        optimizer
        for optimizer in optimizers
        if any(weight is each for group in optimizer.param_groups for each in group["params"])
    )


def write(file: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint; the old one stays if writing fails."""
    about = {"step": str(checkpoint.step), "recipe": json.dumps(checkpoint.recipe, sort_keys=True)}
    write_atomic(file, save(checkpoint.tensors, metadata=about))


def read(file: Path) -> Checkpoint:
    try:
        with safe_open(file, framework="pt") as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 — not a dict
        return Checkpoint(int(about["step"]), json.loads(about["recipe"]), tensors)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{file} is not a checkpoint of a training run: {problem}; give another --out") from problem
