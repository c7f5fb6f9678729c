"""How much of what W_O writes arrives at the end of the residual stream: measured, since families scale it.

A share of a logit is honest only if a head's part travels to the final norm unchanged but for one factor. So W_O's
output is pushed while every other matrix answers as it did before: what branches write stays, and twice the push moves
the end by the push times that factor. Branches that are not made of matrices read through norms, which a push that is
large beside the stream leaves where they were. Where a norm stands in the stream itself the end moves otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.structure.trace import hooked, is_matrix

PUSH = 1000.0  # beside the size of the stream
NOT_A_SUM = (
    "what W_O writes does not reach the end of the residual stream by addition alone (a norm or a gate stands in it)"
)
NOT_SEEN = "what W_O writes was not seen to be added to the residual stream that predictions are read from"
NO_END = "where its residual stream ends was not found"

Scales = dict[str, float | str]
"""For every site, the factor on its way to the end of the stream, or why there is not one such factor."""


@torch.no_grad()
def stream_scales(
    model: nn.Module,
    residual_of: Callable[[Mapping[str, Tensor]], Tensor | None],
    writers: Mapping[str, nn.Module],
    probe: Mapping[str, Tensor],
) -> Scales:
    """``residual_of`` runs the model and gives the input of the final norm; ``writers`` join the stream.

    All sites are pushed in one batch, a copy of the probe for each.
    """
    copies = {name: value[:1].expand(len(writers), *value.shape[1:]) for name, value in probe.items()}
    answers: dict[nn.Module, list[Any]] = {module: [] for module in model.modules() if is_matrix(module)}
    with _answering(answers):
        before = residual_of(copies)
    if before is None or before.ndim != 3:
        return dict.fromkeys(writers, NO_END)
    dice = torch.Generator().manual_seed(0)
    size = PUSH * before.float().square().mean().sqrt().clamp(min=1e-6)
    push = (torch.randn(before.shape[1:], generator=dice).to(before.device) * size).to(before.dtype)
    ends = [before.double()]
    for factor in (1.0, 2.0):
        with _answering(answers), _pushed(writers, factor * push):
            end = residual_of(copies)
        assert end is not None
        ends.append(end.double())
    allowed = 2e-2 if before.dtype in (torch.float16, torch.bfloat16) else 1e-3
    return {site: _factor([end[copy] for end in ends], push.double(), allowed) for copy, site in enumerate(writers)}


def found_scale(scales: Mapping[str, float | str], site: str) -> float:
    """The factor of one site, or a refusal."""
    scale = scales.get(site, NOT_SEEN)
    if isinstance(scale, str):
        raise ModelError(f"{site}: {scale}, so a logit cannot be split over its heads")
    return scale


def _factor(ends: list[Tensor], push: Tensor, allowed: float) -> float | str:
    """From the end as it was, pushed, and pushed twice as far."""
    before, once, twice = ends
    if torch.equal(before, once):
        return NOT_SEEN
    moved = twice - once
    factor = float((moved * push).sum() / push.square().sum())
    gap = float((moved - factor * push).norm() / push.norm())
    if abs(factor) < 1e-9 or not gap <= allowed * abs(factor):
        return NOT_A_SUM
    return 1.0 if abs(factor - 1.0) < 1e-4 else factor


@contextmanager
def _answering(answers: Mapping[nn.Module, list[Any]]) -> Iterator[None]:
    """A first pass fills in what every matrix answers at each call; in later ones it answers the same again."""
    calls = dict.fromkeys(answers, 0)

    def answer(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        before, turn = answers[module], calls[module]
        calls[module] += 1
        if turn == len(before):
            before.append(output.clone() if isinstance(output, Tensor) else None)
        same = isinstance(output, Tensor) and before[turn].shape == output.shape
        return before[turn].clone() if same else output  # experts may be given other tokens than before

    with hooked(answers, leave=answer):
        yield


@contextmanager
def _pushed(writers: Mapping[str, nn.Module], push: Tensor) -> Iterator[None]:
    """Copy c of the batch has its site c pushed. A module that several sites share is pushed in its turn for each."""
    turns: dict[nn.Module, list[int]] = {}
    for copy, module in enumerate(writers.values()):
        turns.setdefault(module, []).append(copy)
    calls = dict.fromkeys(turns, 0)

    def add(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        copy = turns[module][min(calls[module], len(turns[module]) - 1)]
        calls[module] += 1
        made = output[0] if isinstance(output, tuple) else output
        rows = made.clone()
        if made.numel() != len(writers) * push.numel() or made.shape[0] == push.shape[0] != len(writers):
            return output  # another tower's rows, or rows in another order: the end will not move
        rows.view(len(writers), *push.shape)[copy] += push
        return (rows, *output[1:]) if isinstance(output, tuple) else rows

    with hooked(turns, leave=add):
        yield
