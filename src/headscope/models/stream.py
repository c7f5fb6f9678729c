"""How much of what W_O writes arrives at the end of the residual stream: measured, since families scale it.

A share of a logit is honest only if a head's part travels to the final norm unchanged but for one factor. In a stream
that branches read through norms, a push that is large beside the stream leaves them where they were, so that twice the
push moves the end by the push times that factor. Where a norm stands in the stream itself the end moves otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError

PUSH = 1000.0  # beside the size of the stream
NOT_A_SUM = "what W_O writes does not reach the final norm by addition alone (a norm stands in the residual stream)"


@torch.no_grad()
def stream_scales(
    residual_of: Callable[[Mapping[str, Tensor]], Tensor | None],
    writers: Mapping[str, nn.Module],
    probe: Mapping[str, Tensor],
) -> dict[str, float | None]:
    """For every site, the factor on its way to the end of the stream; None where there is not one such factor.

    ``residual_of`` runs the model and gives the input of the final norm; ``writers`` are the modules whose output
    joins the stream. All sites are pushed in one batch, a copy of the probe for each.
    """
    copies = {name: value[:1].expand(len(writers), *value.shape[1:]) for name, value in probe.items()}
    before = residual_of(copies)
    if before is None or before.ndim != 3:
        return dict.fromkeys(writers)
    dice = torch.Generator().manual_seed(0)
    size = PUSH * before.float().square().mean().sqrt().clamp(min=1e-6)
    push = (torch.randn(before.shape[1:], generator=dice).to(before.device) * size).to(before.dtype)
    ends = []
    for factor in (1.0, 2.0):
        with _pushed(writers, factor * push):
            end = residual_of(copies)
        assert end is not None
        ends.append(end.double())
    moved = ends[1] - ends[0]
    allowed = 2e-2 if before.dtype in (torch.float16, torch.bfloat16) else 1e-3
    return {site: _factor(moved[copy], push.double(), allowed) for copy, site in enumerate(writers)}


def found_scale(scales: Mapping[str, float | None], site: str) -> float:
    """The factor of one site, or a refusal."""
    scale = scales.get(site)
    if scale is None:
        raise ModelError(f"{site}: {NOT_A_SUM}, so a logit cannot be split over its heads")
    return scale


def _factor(moved: Tensor, push: Tensor, allowed: float) -> float | None:
    factor = float((moved * push).sum() / push.square().sum())
    gap = float((moved - factor * push).norm() / push.norm())
    if abs(factor) < 1e-9 or not gap <= allowed * abs(factor):
        return None
    return 1.0 if abs(factor - 1.0) < 1e-4 else factor


@contextmanager
def _pushed(writers: Mapping[str, nn.Module], push: Tensor) -> Iterator[None]:
    """Copy c of the batch has its site c pushed. A module that several sites share is pushed in its turn for each."""
    turns: dict[nn.Module, list[int]] = {}
    for copy, module in enumerate(writers.values()):
        turns.setdefault(module, []).append(copy)
    calls = dict.fromkeys(turns, 0)

    def add(module: nn.Module, args: Any, output: Any) -> Any:
        copy = turns[module][min(calls[module], len(turns[module]) - 1)]
        calls[module] += 1
        made = output[0] if isinstance(output, tuple) else output
        rows = made.clone()
        if made.numel() != len(writers) * push.numel() or made.shape[0] == push.shape[0] != len(writers):
            return output  # another tower's rows, or rows in another order: the end will not move
        rows.view(len(writers), *push.shape)[copy] += push
        return (rows, *output[1:]) if isinstance(output, tuple) else rows

    hooks = [module.register_forward_hook(add) for module in turns]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
