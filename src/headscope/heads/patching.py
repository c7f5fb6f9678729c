"""Activation patching of every head, or every position of a layer: which of them carry the difference of two texts.

Values of the clean text are put into passes over the corrupted one, one cell in each copy of a batch. Or, to first
order, all cells at once from the gradient of the metric in one corrupted pass (attribution patching).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.attention.progress import report_progress
from headscope.errors import InputError
from headscope.heads.edits.points import At, Change, Point, changing
from headscope.heads.look.look import Look
from headscope.models.modes import own_precision
from headscope.models.protocol import OpenModel
from headscope.models.structure.readers import probed

if TYPE_CHECKING:
    import pyarrow as pa

COPIES = 32  # of the corrupted text in one pass
HARDLY = 0.05  # of the metric: a smaller difference of the two texts makes ratios of rounding
SHOWN = 10

Metric = Callable[[Tensor], Tensor]
"""One number from logits ``[query, vocabulary]``."""


@dataclass(frozen=True)
class Patching:
    """What each cell does: 1 where the metric is as in the clean text, 0 where it stays as in the corrupted one."""

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

    def table(self) -> pa.Table:
        """An Arrow table with one row per cell."""
        import pyarrow as pa

        cells = self._cells()
        return pa.table(
            {
                "layer": [self.layers[row] for row, _ in cells],
                self.by: [column for _, column in cells],
                "label": [self.columns[column] for _, column in cells],
                "effect": [float(self.effect[cell]) for cell in cells],
            }
        )

    def _cells(self) -> list[tuple[int, int]]:
        return [(row, column) for row, column in (~self.effect.isnan()).nonzero().tolist()]

    def __str__(self) -> str:
        word = "estimated from the gradient" if self.estimated else "measured"
        lines = [
            f"Metric: {self.clean:+.3f} on the clean text, {self.corrupted:+.3f} on the corrupted one.",
            f"Effect of patching {self.at} by {self.by}, {word}: 1 is as clean, 0 as corrupted.",
        ]
        for row, column in sorted(self._cells(), key=lambda cell: -abs(float(self.effect[cell])))[:SHOWN]:
            where = f"{self.layers[row]}.{column}" if self.by == "head" else f"{self.layers[row]}, {column}"
            label = "" if self.by == "head" else f" {self.columns[column]!r}"
            lines.append(f"  {where}{label}: {float(self.effect[row, column]):+.3f}")
        return "\n".join(lines)


@own_precision()
def patching(
    clean: Look, corrupted: Look, metric: Metric, at: At, by: Literal["head", "position"], how: str
) -> Patching:
    """Patch every cell from the clean look into the corrupted text."""
    if by == "head" and at != "z":
        raise InputError(f"at={at!r} has no heads. Use by='position', or at='z'")
    _refuse_lengths(clean, corrupted)
    ends = float(metric(clean.logits)), float(metric(corrupted.logits))
    gap = ends[0] - ends[1]
    if gap == 0.0 or not math.isfinite(gap):
        raise InputError(f"the metric is {ends[0]:.4g} on the clean text and {ends[1]:.4g} on the corrupted one")
    if abs(gap) < HARDLY * max(map(abs, ends)):
        warnings.warn(
            f"the metric hardly differs: {ends[0]:+.4g} on the clean text, {ends[1]:+.4g} on the corrupted one",
            stacklevel=3,
        )
    run = _Patched(corrupted.model, corrupted.prepared.inputs, metric, at, by)
    names = corrupted.sites if at in ("z", "attn_out") else tuple(dict.fromkeys(probed(run.model).layers.values()))
    values = run.values(clean.prepared.inputs, names)
    found = run.gradients(values) if how == "attribution" else run.exact(values, ends[1])
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
    """Passes over the corrupted text in which some values are changed; the axis of cells comes after the batch."""

    model: OpenModel
    inputs: Mapping[str, Tensor]
    metric: Metric
    at: str
    by: str

    def values(self, inputs: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
        """The values of a text at these sites or layers."""
        found: dict[str, Tensor] = {}

        def keep(name: str, value: Tensor) -> Tensor:
            found[name] = value.detach().clone()
            return value

        with torch.no_grad():
            self._logits(inputs, dict.fromkeys(names, keep))
        return {name: found[name] for name in names}

    def exact(self, clean: Mapping[str, Tensor], corrupted: float) -> list[Tensor]:
        """How far each cell moves the metric when it is patched alone."""
        rows = []
        for index, (name, value) in enumerate(clean.items()):
            report_progress("patching", index, len(clean))
            moved = [self._moved(name, value, cells) for cells in torch.split(torch.arange(value.shape[1]), COPIES)]
            rows.append(torch.cat(moved) - corrupted)
        return rows

    @torch.no_grad()
    def _moved(self, name: str, clean: Tensor, cells: Tensor) -> Tensor:
        def put(_: str, value: Tensor) -> Tensor:
            value = value.clone()
            value[torch.arange(len(cells)), cells] = clean[0, cells].to(value)
            return value

        copies = {key: value.expand(len(cells), *value.shape[1:]) for key, value in self.inputs.items()}
        numbers = [float(self.metric(each)) for each in self._logits(copies, {name: put})]
        return torch.tensor(numbers, dtype=torch.float64)

    def gradients(self, clean: Mapping[str, Tensor]) -> list[Tensor]:
        """The same to first order: the derivative of the metric along the way from corrupted to clean."""
        corrupted = self.values(self.inputs, list(clean))
        moves = {name: torch.zeros_like(value, requires_grad=True) for name, value in clean.items()}
        with torch.enable_grad():
            changes: dict[str, Any] = dict.fromkeys(clean, lambda name, value: value + moves[name])
            number = self.metric(self._logits(self.inputs, changes)[0])
            slopes = torch.autograd.grad(number, list(moves.values()), allow_unused=True)
        rows = []
        for (name, value), slope in zip(clean.items(), slopes, strict=True):
            along = torch.zeros_like(value) if slope is None else slope * (value - corrupted[name])
            rows.append(along[0].flatten(1).sum(1).double().cpu())
        return rows

    def _logits(self, inputs: Mapping[str, Tensor], changes: Mapping[str, Callable[[str, Tensor], Tensor]]) -> Tensor:
        if self.at != "z":
            hooks = {Point.parse(f"{self.at} {name}"): _at(name, change) for name, change in changes.items()}
            with changing(self.model, hooks, {}):
                return self.model.run(inputs).logits

        def attend(site: str, call: Call) -> Tensor:
            z = plain(call)
            if site not in changes:
                return z
            by_head = self.by == "head"
            return changes[site](site, z) if by_head else changes[site](site, z.transpose(1, 2)).transpose(1, 2)

        return self.model.run(inputs, attend).logits


def _at(name: str, change: Callable[[str, Tensor], Tensor]) -> Change:
    return lambda value, first: change(name, value)
