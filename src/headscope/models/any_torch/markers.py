"""Learn where every z goes, by *marker values*: every cell of z is given a number of its own.

At the next matrix, the numbers in its input say which cell of z is where: which matrix is W_O, which axis is the head,
and the order of heads and of their numbers. Where a matrix has taken markers, its output is computed from the true
values, so that the rest of the pass is the model's own. Numbers of both signs are used, or a ReLU between z and W_O
would pass for nothing at all. float32 holds 2²⁴ numbers exactly; half precision needs several passes, a digit in each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.models.any_torch.axes import AxisKind, Layout
from headscope.models.any_torch.function_mode import AttentionMode, FoundCall, MatrixUse, OnMatrix, Visit
from headscope.models.any_torch.matrices import Matrix, as_matrix
from headscope.models.any_torch.score_product import find_score_product, why_no_pattern
from headscope.models.protocol import HeadSum
from headscope.models.structure.weights import Layout as RowOrder

DIGIT_BITS = {torch.float64: 40, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}
"""Bits of the whole numbers that a dtype holds exactly, and one less."""

NOT_TAKEN = "no matrix takes its heads as they are: something acts on them first, or there is no W_O"
SEVERAL_QUERIES = "one row of the next matrix reads several queries: this attends over channels, or reshapes its heads"
NOT_BY_HEAD = "the next matrix does not take all of its heads side by side"

LEAST_TAKEN = 0.01
"""The least part of z that a matrix takes; less of it are numbers that an activation has by chance."""

Passing = Callable[[Visit, OnMatrix], AbstractContextManager[AttentionMode]]
"""Opens a pass whose attention calls and matrices go to these two functions."""


@dataclass
class MatrixTake:
    """A matrix that takes z, or some rows of it: which use of a matrix in the pass, and which cell is where."""

    index: int
    weight: Float[Tensor, "in out"]
    bias: Float[Tensor, " out"] | None
    parameter: Tensor
    rows: Int[Tensor, " row"]
    channels: Int[Tensor, " channel"]
    cells: Int[Tensor, "row channel"]
    order: Int[Tensor, " all"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Input channels of the matrix in the order head, number."""


@dataclass
class LearnedSite:
    """What the learning pass says of one site; ``why`` is the reason where it cannot be observed."""

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    """Of z in the learning pass, ``[lead…, query, d]``."""
    eager: bool
    layout: Layout | None = None
    takes: list[MatrixTake] = field(default_factory=list)
    product: int | None = None
    """Which of the products before the softmax is q·kᵀ, counted from the last."""
    factor: float = 1.0
    why: str = ""
    kind: HeadSum = "exact"
    kind_why: str = ""
    rows: RowOrder = "batch first"
    """The order of the rows of W_O's input, where head parts are taken there."""

    @property
    def n_heads(self) -> int:
        return 0 if self.layout is None else self.layout.n_heads(self.shape[:-2])


class Markers:
    """Numbers for the cells of every z, one digit of them in each pass."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.bits = DIGIT_BITS.get(dtype, 7)
        self.step = 2.0 ** -min(10, self.bits // 2)
        self.digit = 0
        self.spans: dict[str, tuple[int, int]] = {}
        self.taken: set[str] = set()

    @property
    def n_digits(self) -> int:
        """How many passes the numbers need that were given out so far."""
        last = max((stop for _, stop in self.spans.values()), default=1)
        return max(1, -(-int(last).bit_length() // self.bits))

    def mark(self, site: str, like: Tensor) -> Tensor:
        """The markers of one z."""
        if self.bits > 20:  # a number that was read is not needed again, and other activations may have it by chance
            self.spans = {name: span for name, span in self.spans.items() if name not in self.taken}
        if site not in self.spans:
            self.spans[site] = (self._end(), self._end() + like.numel())
        start, stop = self.spans[site]
        digit = torch.arange(start, stop, device=like.device) >> self.bits * self.digit
        code = (digit & (1 << self.bits) - 1) + 1
        return (code * _sign(code) * self.step).view(like.shape).to(like.dtype)

    def read(self, x: Tensor) -> Int[Tensor, "..."]:
        """The digits in a tensor, counted from one; 0 where there is no marker."""
        signed = (x.detach().double() / self.step).nan_to_num(0.5, 0.5, 0.5)
        code = signed.abs().round().long()
        real = (signed.abs() == code) & (code >= 1) & (code <= 1 << self.bits) & (signed.sign().long() == _sign(code))
        return torch.where(real, code, 0)

    def _end(self) -> int:
        return max((stop for _, stop in self.spans.values()), default=1)


def _sign(code: Tensor) -> Tensor:
    return 1 - 2 * ((code * 2654435761) >> 7 & 1)


class _Learning:
    """One or more passes with markers in every z."""

    def __init__(self, dtype: torch.dtype, skip: frozenset[str]) -> None:
        self.markers, self.skip = Markers(dtype), skip
        self.sites: dict[str, LearnedSite] = {}
        self.values: dict[str, Tensor] = {}
        self.digits: dict[int, tuple[Matrix, list[Tensor]]] = {}

    def visit(self, found: FoundCall) -> Tensor:
        """Keep the true z, and hand markers on in its place."""
        z = found.own().detach()
        if found.site not in self.sites:
            site = LearnedSite(found.site, found.module, found.shape, found.eager, why=why_no_pattern(found))
            if found.eager and not site.why:
                site.product, site.factor, site.why = find_score_product(found)
            self.sites[found.site] = site
        if found.site in self.skip or self.sites[found.site].why or tuple(z.shape) != found.shape:
            return z
        self.values[found.site] = z.flatten()
        return self.markers.mark(found.site, z)

    def on_matrix(self, use: MatrixUse) -> Tensor | None:
        """Read the markers in a matrix's input; compute its output from the true values where that is possible."""
        matrix = as_matrix(use)
        if matrix is None:
            return None
        code = self.markers.read(matrix.x) if self.markers.spans else None
        x = matrix.x
        if code is not None and bool(code.any()):
            self.digits.setdefault(use.index, (matrix, []))[1].append(code)
            if self.markers.bits > 20:
                x = self._true_values(use.index, matrix, code, x)
        return None if use.of_scores and x is matrix.x else matrix.with_input(x).detach()

    def _true_values(self, index: int, matrix: Matrix, code: Tensor, x: Tensor) -> Tensor:
        """Take the markers of every site out of a matrix's input."""
        del self.digits[index]
        for site in list(self.markers.spans):
            if self._take(site, index, matrix, code):
                start, stop = self.markers.spans[site]
                here = (code >= start + 1) & (code < stop + 1)
                values = self.values[site][(code - 1 - start).clamp(0, stop - start - 1)]
                x = torch.where(here, values.to(x), x.detach())
        return x

    def join_digits(self) -> None:
        """Put the digits of all passes together, and see who took what."""
        for index, (matrix, codes) in self.digits.items():
            if len(codes) == self.markers.digit + 1:
                number = sum((code - 1) << self.markers.bits * place for place, code in enumerate(codes))
                real = torch.stack([code > 0 for code in codes]).all(0)
                for site in self.markers.spans:
                    self._take(site, index, matrix, torch.where(real, torch.as_tensor(number) + 1, 0))

    def _take(self, site: str, index: int, matrix: Matrix, code: Tensor) -> bool:
        """Whether this matrix takes this site's z; if so, note how."""
        start, stop = self.markers.spans[site]
        number = matrix.rows(code) - 1
        inside = (number >= start) & (number < stop)
        rectangle = _rectangle(inside)
        if rectangle is None:
            return False
        rows, channels = rectangle
        cells = number[rows][:, channels] - start
        distinct = cells.flatten().sort().values.diff().count_nonzero().item() + 1
        if distinct * 2 < cells.numel() or distinct < LEAST_TAKEN * (stop - start) or len(channels) < 2:
            return False
        learned = self.sites[site]
        take = MatrixTake(index, matrix.weight, matrix.bias, matrix.parameter, rows, channels, cells)
        layout = _layout(cells, learned.shape)
        if layout is None:
            learned.why = learned.why or SEVERAL_QUERIES
        else:
            order = _head_order(layout, cells[0], learned.shape)
            learned.why = learned.why or ("" if order is not None else NOT_BY_HEAD)
            take.order = channels if order is None else channels[order]
            learned.layout = learned.layout or layout
            if learned.layout != layout:
                learned.why = NOT_BY_HEAD
        learned.takes.append(take)
        self.markers.taken.add(site)
        return True


def learn(run: Callable[[], Any], passing: Passing, dtype: torch.dtype) -> dict[str, LearnedSite]:
    """Run the model with markers; once more without those that were lost, since they disturb what comes after."""
    sites = _learn(run, passing, dtype, frozenset())
    lost = frozenset(name for name, site in sites.items() if not site.takes)
    if lost and len(lost) < len(sites):
        known = _learn(run, passing, dtype, lost)
        sites = {name: known.get(name, site) for name, site in sites.items()}
    for site in sites.values():
        if not site.takes:
            site.why = site.why or NOT_TAKEN
    return sites


def _learn(
    run: Callable[[], Any], passing: Passing, dtype: torch.dtype, skip: frozenset[str]
) -> dict[str, LearnedSite]:
    learning = _Learning(dtype, skip)
    while True:
        with passing(learning.visit, learning.on_matrix), torch.enable_grad():
            run()
        if learning.markers.bits > 20 or learning.markers.digit + 1 >= learning.markers.n_digits:
            break
        learning.markers.digit += 1
    learning.join_digits()
    return learning.sites


def _rectangle(inside: Bool[Tensor, "row in"]) -> tuple[Tensor, Tensor] | None:
    """The rows and channels that are all markers of one site; None if there are none, or strays beside them."""
    count = inside.sum(0)
    if not bool(count.any()):
        return None
    channels = ((count > 0) & (2 * count >= count.max())).nonzero()[:, 0]
    rows = inside[:, channels].all(1).nonzero()[:, 0]
    whole = len(rows) * len(channels)
    return (rows, channels) if whole and whole >= 0.9 * int(inside.sum()) else None


def _layout(cells: Int[Tensor, "row channel"], shape: tuple[int, ...]) -> Layout | None:
    """What each leading axis is: its coordinate moves along a row of W_O's input (head), down the rows (batch) or both.

    None where a row reads several queries, or a channel several numbers of a head.
    """
    coordinates, rest = [], cells
    for size in reversed(shape):
        coordinates.append(rest % size)
        rest = rest // size
    number, query, *reversed_lead = coordinates
    if bool((query != query[:, :1]).any()) or bool((number != number[:1]).any()):
        return None
    kinds: list[AxisKind] = []
    heads = 1
    for at, size in zip(reversed(reversed_lead), shape[:-2], strict=True):
        along, down = bool((at != at[:, :1]).any()), bool((at != at[:1]).any())
        if along and down:
            if heads > 1:
                return None
            kind, heads = _merged(at, size)
            if kind is None:
                return None
            kinds.append(kind)
        else:
            kinds.append("head" if along else "batch")
    return Layout(tuple(kinds), heads)


def _merged(at: Int[Tensor, "row channel"], size: int) -> tuple[AxisKind | None, int]:
    """Batch and head in one axis: which of them counts faster, and the number of heads."""
    heads = len(set(at[0].tolist()))
    if heads < 2 or size % heads:
        return None, 1
    batch = size // heads
    if not bool((at // heads != at[:, :1] // heads).any()):
        return "batch head", heads
    return ("head batch", heads) if not bool((at % batch != at[:, :1] % batch).any()) else (None, 1)


def _head_order(layout: Layout, cells: Int[Tensor, " channel"], shape: tuple[int, ...]) -> Tensor | None:
    """Channels of one row in the order head, number; None unless all of them are there, each once."""
    lead, d = shape[:-2], shape[-1]
    count = int(torch.tensor(lead).prod()) if lead else 1
    table = layout.to_heads(torch.arange(count, device=cells.device).view(*lead, 1, 1), lead)[:, :, 0, 0]
    head_of = torch.empty(count, dtype=torch.long, device=cells.device)
    for head in range(table.shape[1]):
        head_of[table[:, head]] = head
    place = head_of[cells // (shape[-2] * d)] * d + cells % d
    n_cells = layout.n_heads(lead) * d
    if len(place) != n_cells or not torch.equal(place.sort().values, torch.arange(n_cells, device=cells.device)):
        return None
    return place.argsort()
