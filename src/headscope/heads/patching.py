"""Activation patching of every head, or every position of a layer: which of them carry the difference of two texts.

Values of the clean text are put into passes over the corrupted one, one cell in each copy of a batch. Or, to first
order, all cells at once from the gradient of the metric in one corrupted pass (attribution patching).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.heads.figure import Figure, cell_figure
from headscope.heads.head_table import HeadTable, of_head
from headscope.heads.look.look import Look
from headscope.models.modes import own_precision
from headscope.models.recording import OpenModel
from headscope.models.structure.points import (
    Answers,
    At,
    Metric,
    Point,
    gradients_at,
    metric_of,
    run_changed,
    values_at,
)
from headscope.models.structure.readers import probed
from headscope.names import Head

COPIES = 32  # of the corrupted text in one pass
HARDLY = 0.05  # of the metric: a smaller difference of the two texts makes ratios of rounding


@dataclass(frozen=True, repr=False)
class Patching(HeadTable):
    """What each cell does: 1 where the metric is as in the clean text, 0 where it stays as in the corrupted one."""

    _column, _signed = "effect", True
    effect: Float[Tensor, "layer column"]
    """NaN where a layer has no such head or position."""
    layers: tuple[str, ...]
    columns: tuple[str, ...]
    """Numbers of heads, or tokens."""
    at: str
    by: str
    clean: float
    corrupted: float
    estimated: bool
    """Whether effects are of first order, from a gradient."""

    def _rows(self) -> list[dict[str, Any]]:
        """A row per cell: its layer, its head or position, and the effect."""
        return [
            {"layer": self.layers[row], "label": self.columns[column], "effect": float(self.effect[row, column])}
            | (of_head(Head(self.layers[row], column)) if self.by == "head" else {"position": column})
            for row, column in self._cells()
        ]

    def matrix(self, name: str | None = None) -> Float[Tensor, "layer column"]:
        """The effects: a row per layer, a column per head or position."""
        return self.effect

    def plot(self, name: str | None = None) -> Figure:
        """The effects as a map, layers by heads or positions."""
        title = f"Effect of patching {self.at} by {self.by}"
        return cell_figure(
            self.effect.numpy(), self.layers, self.columns, title, signed=True, numbers=self.by == "head"
        )

    def _cells(self) -> list[tuple[int, int]]:
        return [(row, column) for row, column in (~self.effect.isnan()).nonzero().tolist()]

    def _title(self) -> str:
        word = "estimated from the gradient" if self.estimated else "measured"
        return (
            f"Metric: {self.clean:+.3f} on the clean text, {self.corrupted:+.3f} on the corrupted one.\n"
            f"Effect of patching {self.at} by {self.by}, {word}: 1 is as clean, 0 as corrupted."
        )

    def _label(self, row: dict[str, Any]) -> str:
        at = f"layer {row['layer']}, position {row.get('position')}, {row['label']!r}"
        return super()._label(row) if self.by == "head" else at


@own_precision()
def patching(
    clean: Look, corrupted: Look, metric: Metric | Answers, at: At, by: Literal["head", "position"], how: str
) -> Patching:
    """Patch every cell from the clean look into the corrupted text."""
    if by == "head" and at != "z":
        raise InputError(f"at={at!r} has no heads. Use by='position', or at='z'")
    _refuse_lengths(clean, corrupted)
    metric = metric_of(clean.model, metric)
    ends = float(metric(clean.logits)), float(metric(corrupted.logits))
    gap = ends[0] - ends[1]
    if gap == 0.0 or not math.isfinite(gap):
        raise InputError(f"the metric is {ends[0]:.4g} on the clean text and {ends[1]:.4g} on the corrupted one")
    if abs(gap) < HARDLY * max(map(abs, ends)):
        warnings.warn(
            f"the metric hardly differs: {ends[0]:+.4g} on the clean text, {ends[1]:+.4g} on the corrupted one",
            stacklevel=6,
        )
    run = _Patched(corrupted.model, corrupted.prepared.inputs, metric, 2 if by == "head" else 1)
    names = corrupted.sites if at in ("z", "attn_out") else tuple(dict.fromkeys(probed(run.model).layers.values()))
    values = clean.cache.values_at([Point(at, name) for name in names])
    found = run.estimated(values) if how == "attribution" else run.exact(values, ends[1])
    width = max(len(row) for row in found)
    effect = torch.full((len(names), width), math.nan)
    for index, row in enumerate(found):
        effect[index, : len(row)] = row / gap
    tokens = [token.text for token in corrupted.written]
    columns = [str(index) if by == "head" or index >= len(tokens) else tokens[index] for index in range(width)]
    return Patching(effect, tuple(names), tuple(columns), at, by, *ends, how == "attribution")


def _refuse_lengths(clean: Look, corrupted: Look) -> None:
    ours, theirs = (
        {name: tuple(value.shape) for name, value in look.prepared.inputs.items()} for look in (clean, corrupted)
    )
    if ours != theirs:
        raise InputError(
            f"the clean text has {len(clean.tokens)} tokens and the corrupted one {len(corrupted.tokens)}; a value is "
            "patched at its own position, so give two texts of one length"
        )


@dataclass(frozen=True)
class _Patched:
    """Passes over the corrupted text in which values of the clean one are put, one cell in each copy of a batch."""

    model: OpenModel
    inputs: Mapping[str, Tensor]
    metric: Metric
    axis: int
    """Which axis of a value has the cells: positions, or heads."""

    def exact(self, clean: Mapping[Point, Tensor], corrupted: float) -> list[Tensor]:
        """How far each cell moves the metric when only it is patched."""
        rows = []
        for index, (point, value) in enumerate(clean.items()):
            report_progress("patching", index, len(clean))
            cells = torch.split(torch.arange(value.shape[self.axis]), COPIES)
            rows.append(torch.cat([self._moved(point, value, some) for some in cells]) - corrupted)
        return rows

    @torch.no_grad()
    def _moved(self, point: Point, clean: Tensor, cells: Tensor) -> Tensor:
        def put(value: Tensor, first: int) -> Tensor:
            value = value.clone()
            value.movedim(self.axis, 1)[torch.arange(len(cells)), cells] = clean.movedim(self.axis, 1)[0, cells].to(
                value
            )
            return value

        copies = {key: value.expand(len(cells), *value.shape[1:]) for key, value in self.inputs.items()}
        made = run_changed(self.model, copies, {point: put}, batch=len(cells))
        numbers = [float(self.metric(each)) for each in made]
        return torch.tensor(numbers, dtype=torch.float64)

    def estimated(self, clean: Mapping[Point, Tensor]) -> list[Tensor]:
        """The same to first order: the derivative of the metric along the way from corrupted to clean."""
        corrupted = values_at(self.model, self.inputs, list(clean))
        slopes = gradients_at(self.model, self.inputs, self.metric, list(clean))
        along = (slopes[point] * (value - corrupted[point]) for point, value in clean.items())
        return [each.movedim(self.axis, 1)[0].flatten(1).sum(1).double().cpu() for each in along]
