"""Save and load the state of a training run in one safetensors file, replaced atomically."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.errors import InputError
from headscope.files import write_atomic

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: its step, its recipe, all tensors needed to resume, and the machines it ran on."""

    step: int
    recipe: dict[str, Any]
    tensors: dict[str, Tensor]
    machines: list[dict[str, Any]] = field(default_factory=list)


def capture(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Collect weights and optimizer moments by weight name."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight.{name}"] = weight.detach().cpu().contiguous()
        for moment in MOMENTS:
            if moment in optimizer.state[weight]:
                tensors[f"{moment}.{name}"] = optimizer.state[weight][moment].cpu().contiguous()
    return tensors


@torch.no_grad()
def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load weights and optimizer state, so that training continues exactly."""
    for name, weight in model.named_parameters():
        weight.copy_(checkpoint.tensors[f"weight.{name}"])
        if f"exp_avg.{name}" in checkpoint.tensors:
            state = optimizer.state[weight]
            where = weight.device if optimizer.defaults.get("fused") else "cpu"
            state["step"] = torch.tensor(float(checkpoint.step), device=where)
            for moment in MOMENTS:
                state[moment] = checkpoint.tensors[f"{moment}.{name}"].to(weight.device)


def write(file: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint; the old one stays if writing fails."""
    about = {"step": str(checkpoint.step), "recipe": json.dumps(checkpoint.recipe, sort_keys=True)}
    about["machines"] = json.dumps(checkpoint.machines)
    write_atomic(file, save(checkpoint.tensors, metadata=about))


def read(file: Path) -> Checkpoint:
    try:
        with safe_open(file, framework="pt") as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 — not a dict
        machines = json.loads(about.get("machines", "[]"))
        return Checkpoint(int(about["step"]), json.loads(about["recipe"]), tensors, machines)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{file} is not a checkpoint of a training run: {problem}; give another --out") from problem
