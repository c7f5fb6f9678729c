"""Measure the factor on each site's output between W_O and the end of the residual stream.

Logit attribution holds only if a head's part reaches the final norm unchanged but for one factor, and model families
scale it. So W_O's output is perturbed while every other matrix replays its recorded output: other branches write what
they wrote, and doubling the perturbation moves the end of the stream by the perturbation times that factor. Branches
without matrices read the stream through norms, which a perturbation that is large beside the stream does not move. A
norm on the stream itself moves its end in another direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.structure.trace import hooked, is_matrix

PERTURBATION = 1000.0  # relative to the size of the residual stream
NOT_A_SUM = (
    "what W_O writes does not reach the end of the residual stream by addition alone (a norm or a gate acts on it)"
)
NOT_ADDED = "what W_O writes is not added to the residual stream that predictions are read from"
NO_END = "the end of its residual stream was not found"

Scales = dict[str, float | str]
"""For every site, the factor on its way to the end of the stream, or why it is not one factor."""


@torch.no_grad()
def residual_scales(
    model: nn.Module,
    residual_of: Callable[[Mapping[str, Tensor]], Tensor | None],
    writers: Mapping[str, nn.Module],
    probe: Mapping[str, Tensor],
) -> Scales:
    """Measure all sites in one batch, a copy of the probe for each.

    ``residual_of`` runs the model and returns the input of the final norm; ``writers`` add to the stream.
    """
    copies = {name: value[:1].expand(len(writers), *value.shape[1:]) for name, value in probe.items()}
    recorded: dict[nn.Module, list[Any]] = {module: [] for module in model.modules() if is_matrix(module)}
    with _replayed(recorded):
        before = residual_of(copies)
    if before is None or before.ndim != 3:
        return dict.fromkeys(writers, NO_END)
    size = PERTURBATION * before.float().square().mean().sqrt().clamp(min=1e-6)
    direction = torch.randn(before.shape[1:], generator=torch.Generator().manual_seed(0)).to(before.device)
    change = (direction * size).to(before.dtype)
    ends = [before.double()]
    for factor in (1.0, 2.0):
        with _replayed(recorded), _perturbed(writers, factor * change):
            end = residual_of(copies)
        assert end is not None
        ends.append(end.double())
    allowed = 2e-2 if before.dtype in (torch.float16, torch.bfloat16) else 1e-3
    return {site: _fit([end[copy] for end in ends], change.double(), allowed) for copy, site in enumerate(writers)}


def scale_of(scales: Mapping[str, float | str], site: str) -> float:
    """The factor of one site; refused with the reason where there is none."""
    scale = scales.get(site, NOT_ADDED)
    if isinstance(scale, str):
        raise ModelError(f"{site}: {scale}, so a logit cannot be split over its heads")
    return scale


def _fit(ends: list[Tensor], change: Tensor, allowed: float) -> float | str:
    """The factor, from the end of the stream as it was, perturbed once, and perturbed twice as far."""
    before, once, twice = ends
    if torch.equal(before, once):
        return NOT_ADDED
    moved = twice - once
    factor = float((moved * change).sum() / change.square().sum())
    gap = float((moved - factor * change).norm() / change.norm())
    if abs(factor) < 1e-9 or not gap <= allowed * abs(factor):
        return NOT_A_SUM
    return 1.0 if abs(factor - 1.0) < 1e-4 else factor


@contextmanager
def _replayed(recorded: Mapping[nn.Module, list[Any]]) -> Iterator[None]:
    """Record every matrix's outputs in the first pass, and replace its outputs by them in later ones."""
    calls: Counter[nn.Module] = Counter()

    def replay(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        outputs, turn = recorded[module], calls[module]
        calls[module] += 1
        if turn == len(outputs):
            outputs.append(output.clone() if isinstance(output, Tensor) else None)
        same = isinstance(output, Tensor) and outputs[turn].shape == output.shape
        return outputs[turn].clone() if same else output  # experts may be given other tokens than before

    with hooked(recorded, after=replay):
        yield


@contextmanager
def _perturbed(writers: Mapping[str, nn.Module], change: Tensor) -> Iterator[None]:
    """Perturb site c in copy c of the batch. A module that several sites share is perturbed in its turn for each."""
    turns: dict[nn.Module, list[int]] = {}
    for copy, module in enumerate(writers.values()):
        turns.setdefault(module, []).append(copy)
    calls: Counter[nn.Module] = Counter()

    def add(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        copy = turns[module][min(calls[module], len(turns[module]) - 1)]
        calls[module] += 1
        made = output[0] if isinstance(output, tuple) else output
        rows = made.clone()
        if made.numel() != len(writers) * change.numel() or made.shape[0] == change.shape[0] != len(writers):
            return output  # another tower's rows, or rows in another order: the end will not move
        rows.view(len(writers), *change.shape)[copy] += change
        return (rows, *output[1:]) if isinstance(output, tuple) else rows

    with hooked(turns, after=add):
        yield
