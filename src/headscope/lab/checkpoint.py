"""The state of a training run in one safetensors file, replaced whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.errors import InputError

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood: the step, what run it was, and every tensor it needs to go on."""

    step: int
    recipe: dict[str, Any]
    tensors: dict[str, Tensor]


def capture(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The weights and the optimiser's moments, by the weights' names."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight.{name}"] = weight.detach().cpu().contiguous()
        for moment in MOMENTS:
            if moment in optimizer.state[weight]:
                tensors[f"{moment}.{name}"] = optimizer.state[weight][moment].cpu().contiguous()
    return tensors


@torch.no_grad()
def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put everything back, so that the next step is the one that would have come."""
    for name, weight in model.named_parameters():
        weight.copy_(checkpoint.tensors[f"weight.{name}"])
        if f"exp_avg.{name}" in checkpoint.tensors:
            state = optimizer.state[weight]
            where = weight.device if optimizer.defaults.get("fused") else "cpu"
            state["step"] = torch.tensor(float(checkpoint.step), device=where)
            for moment in MOMENTS:
                state[moment] = checkpoint.tensors[f"{moment}.{name}"].to(weight.device)


def write(file: Path, checkpoint: Checkpoint) -> None:
    """Write beside the old file, then take its place; if the disk is full, the old one stays."""
    about = {"step": str(checkpoint.step), "recipe": json.dumps(checkpoint.recipe, sort_keys=True)}
    write_whole(file, save(checkpoint.tensors, metadata=about))


def write_whole(file: Path, content: bytes) -> None:
    """All of the content or none of it."""
    partial = file.with_suffix(".partial")
    try:
        with partial.open("wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        partial.replace(file)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        kept = "the last good one is intact" if file.exists() else "none was written before"
        why = "no space is left on the disk" if problem.errno == errno.ENOSPC else str(problem)
        raise InputError(f"{file} ({len(content) / 1e6:.1f} MB) could not be written: {why}; {kept}") from problem


def read(file: Path) -> Checkpoint:
    try:
        with safe_open(file, framework="pt") as stored:
            about = stored.metadata()
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 — not a dict
        return Checkpoint(int(about["step"]), json.loads(about["recipe"]), tensors)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{file} is not a checkpoint of a training run: {problem}; give another --out") from problem
