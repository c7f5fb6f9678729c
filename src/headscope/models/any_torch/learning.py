"""Learn where every z goes: it is carried along the pass of the probe, with a number for each of its cells.

At the first matrix of weights, the numbers in its input say which cell of z is where: which matrix is W_O, which axis
is the head, and the order of heads and of their numbers.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from headscope.errors import ModelError
from headscope.models.any_torch.axes import AxisKind, HeadAxes
from headscope.models.any_torch.function_mode import AttentionMode, FoundCall, MatrixUse, OnMatrix, ScoreProduct, Visit
from headscope.models.any_torch.matrices import MatrixProduct, as_matrix
from headscope.models.protocol import HeadSum, Layout
from headscope.models.structure.carry import Route
from headscope.models.structure.tape import ARRANGE, Node, SourceNode, Tape
from headscope.models.structure.weights import Heads, cell_numbers, how_heads_reach

NO_PRODUCT = "its weights come from no product of two activations: routing or pooling, not attention"
DROPOUT = "it drops weights at random (dropout is on); switch it off"


def why_no_pattern(found: FoundCall) -> str:
    """Why the weights of a call are no attention pattern; "" where they are one."""
    if found.dropout:
        return DROPOUT
    if found.weights is None:
        return ""
    weights = found.weights.detach()
    total = weights.sum(-1, dtype=torch.float64)
    off = torch.minimum((total - 1).abs(), total.abs())
    exactness = 1e-4 if weights.dtype in (torch.float32, torch.float64) else 2e-2
    if float(weights.min()) < 0 or not float(off.max()) <= exactness:
        low, high = float(total.min()), float(total.max())
        return (
            f"its weights are not a softmax over the keys (rows sum to {low:.3g}–{high:.3g}, the lowest is "
            f"{float(weights.min()):.2g}): heads are mixed, dropped or split after it, or part of it goes elsewhere"
        )
    return ""


def find_score_product(found: FoundCall) -> tuple[int | None, float, str]:
    """Which product is q·kᵀ (counted from the last), and its factor in the scores; or why there is none.

    Where the scores depend on a product, but not by one factor (a softcap), there is no index and no reason.
    """
    assert found.softmax is not None
    scores, products = found.softmax.scores, found.softmax.products
    if not scores.requires_grad:
        graphless = not products or all(product.leaf is None for product in products)
        return None, 1.0, "" if products and graphless else NO_PRODUCT
    direction = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0)).to(scores)
    depends = False
    for back, product in enumerate(reversed(products)):
        if product.leaf is None:
            continue
        (slope,) = torch.autograd.grad((scores * direction).sum(), product.leaf, retain_graph=True, allow_unused=True)
        if slope is None or not bool(slope.any()):
            continue
        depends = True
        factor = _factor(slope, direction, product, found)
        if factor is not None:
            return back, factor, ""
    return None, 1.0, "" if depends else NO_PRODUCT


def _factor(slope: Tensor, direction: Tensor, product: ScoreProduct, found: FoundCall) -> float | None:
    """The one factor between product and scores, where both have the same cells in the same order."""
    if slope.numel() != direction.numel() or query_and_key(product, found) is None:
        return None
    ratio = slope.reshape(direction.shape) / direction
    seen = ratio[(ratio != 0) & torch.isfinite(ratio)]
    if not seen.numel() or not float((seen - seen.median()).abs().max()) <= 1e-3 * float(seen.median().abs()):
        return None
    return float(seen.median())


def query_and_key(product: ScoreProduct, found: FoundCall) -> tuple[Tensor, Tensor] | None:
    """q ``[lead…, query, d]`` and k ``[lead…, key, d]`` of a product, with the leading axes of the call's z."""
    assert found.weights is not None
    q, k = product.a, product.b.mT
    n_query, n_key = found.weights.shape[-2:]
    if q.shape[-2] != n_query or k.shape[-2] != n_key:
        return None
    wide_q, wide_k = _with_lead(q, found.lead), _with_lead(k, found.lead)
    return None if wide_q is None or wide_k is None else (wide_q, wide_k)


def _with_lead(t: Tensor, lead: tuple[int, ...]) -> Tensor | None:
    """A tensor with these leading axes, broadcast or split into them; None where its own do not fit."""
    own = t.shape[:-2]
    if len(own) == len(lead) and all(size in (1, full) for size, full in zip(own, lead, strict=True)):
        return t.expand(*lead, *t.shape[-2:])
    return t.reshape(*lead, *t.shape[-2:]) if own.numel() == math.prod(lead) else None


NOT_TAKEN = "no matrix takes its heads as they are: something acts on them first, or there is no W_O"
SEVERAL_QUERIES = "one row of the next matrix reads several queries: this attends over channels, or reshapes its heads"
NOT_BY_HEAD = "the next matrix does not take all of its heads side by side"

Passing = Callable[[Visit, OnMatrix], AbstractContextManager[AttentionMode]]
"""Opens a pass whose attention calls and matrices go to these two functions."""


@dataclass
class MatrixTake:
    """A matrix that takes z, or some rows of it: the number of its product in the pass, and where each cell of z is."""

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
    """What the learning pass found about one site; ``why`` is the reason if it cannot be observed."""

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    """Of z in the learning pass, ``[lead…, query, d]``."""
    eager: bool
    layout: HeadAxes | None = None
    takes: list[MatrixTake] = field(default_factory=list)
    product: int | None = None
    """Which of the products before the softmax is q·kᵀ, counted from the last."""
    factor: float = 1.0
    why: str = ""
    kind: HeadSum = "exact"
    kind_why: str = ""
    rows: Layout = "batch first"
    """The order of the rows of W_O's input, where head parts are taken there."""

    @property
    def n_heads(self) -> int:
        return 0 if self.layout is None else self.layout.n_heads(self.shape[:-2])


@dataclass(frozen=True)
class Met:
    """The first matrix that z met, perhaps gated or normed: the number of its product in the pass, and its input."""

    index: int
    matrix: MatrixProduct
    z: SourceNode
    x: Node


class Learning:
    """One pass in which every z is carried to the matrices that it meets first."""

    def __init__(self) -> None:
        self.tape = Tape(only_z=True)
        self.sites: dict[str, LearnedSite] = {}
        self.met: dict[str, list[Met]] = {}
        self._z: dict[str, SourceNode] = {}

    def run(self, run: Callable[[], Any], passing: Passing, given: Iterable[Tensor]) -> None:
        for value in given:
            self.tape.mark_input(value)
        with passing(self._visit, self._on_matrix) as mode, torch.enable_grad(), self.tape:
            run()
        self.unsoftened = mode.unsoftened
        for name, site in self.sites.items():
            for met in self.met.get(name, ()):
                _take(site, met)
            if not site.takes:
                site.why = site.why or NOT_TAKEN

    def _visit(self, found: FoundCall) -> Tensor:
        with _disable_current_modes():
            z = found.own().detach()
            if found.site not in self.sites:
                site = LearnedSite(found.site, found.module, found.shape, found.eager, why=why_no_pattern(found))
                if found.eager and not site.why:
                    site.product, site.factor, site.why = find_score_product(found)
                self.sites[found.site] = site
        if not self.sites[found.site].why and tuple(z.shape) == found.shape:
            self._z[found.site] = self.tape.mark_z(z, found.site)
        return z

    def _on_matrix(self, use: MatrixUse) -> Tensor | None:
        """Note which z this matrix takes; cut the gradients of scores here."""
        matrix = as_matrix(use)
        if matrix is None:
            return None
        node = self.tape.z_in(matrix.x)
        for name in () if node is None else sorted(node.z):
            assert node is not None
            self.met.setdefault(name, []).append(Met(use.index, matrix, self._z[name], node))
        return None if use.of_scores else matrix.with_input(matrix.x).detach()


def _take(site: LearnedSite, met: Met) -> None:
    """Note how a matrix takes this site's z, where it takes it as it is."""
    route = Route(met.x)
    if any(op.name not in ARRANGE for op in route.ops):
        return
    made = route.carry(met.z, cell_numbers(met.z).view(met.z.shape))
    if made is None:  # something acted on it that is neither linear nor a norm
        return
    number = met.matrix.rows(made).long() - 1
    inside = number >= 0
    channels = inside.any(0).nonzero()[:, 0]
    rows = inside[:, channels].all(1).nonzero()[:, 0]
    cells = number[rows][:, channels]
    if len(channels) < 2 or cells.numel() < int(inside.sum()) or 2 * len(set(cells.flatten().tolist())) < cells.numel():
        return
    matrix = met.matrix
    take = MatrixTake(met.index, matrix.weight, matrix.bias, matrix.parameter, rows, channels, cells)
    layout = _layout(cells, site.shape)
    if layout is None:
        site.why = site.why or SEVERAL_QUERIES
    else:
        order = _head_order(layout, cells[0], site.shape)
        site.why = site.why or ("" if order is not None else NOT_BY_HEAD)
        take.order = channels if order is None else channels[order]
        site.layout = site.layout or layout
        if site.layout != layout:
            site.why = NOT_BY_HEAD
    site.takes.append(take)


def _layout(cells: Int[Tensor, "row channel"], shape: tuple[int, ...]) -> HeadAxes | None:
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
    return HeadAxes(tuple(kinds), heads)


def _merged(at: Int[Tensor, "row channel"], size: int) -> tuple[AxisKind | None, int]:
    """Batch and head in one axis: which of them counts faster, and the number of heads."""
    heads = len(set(at[0].tolist()))
    if heads < 2 or size % heads:
        return None, 1
    batch = size // heads
    if not bool((at // heads != at[:, :1] // heads).any()):
        return "batch head", heads
    return ("head batch", heads) if not bool((at % batch != at[:, :1] % batch).any()) else (None, 1)


def _head_order(layout: HeadAxes, cells: Int[Tensor, " channel"], shape: tuple[int, ...]) -> Tensor | None:
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


@dataclass(frozen=True)
class Hint:
    """What the user says about one site: its W_O, as a path from the site's module or from the model, and its heads."""

    output: str | None = None
    n_heads: int | None = None


def read_hints(given: Mapping[str, Mapping[str, Any]] | None, sites: Mapping[str, LearnedSite]) -> dict[str, Hint]:
    """The hint of each site, by the first pattern that its name matches."""
    found: dict[str, Hint] = {}
    for pattern, said in (given or {}).items():
        unknown = sorted(set(said) - {"output", "n_heads"})
        if unknown:
            raise ModelError(f"sites[{pattern!r}] has {', '.join(unknown)}; it may say output and n_heads")
        names = [name for name in sites if fnmatch.fnmatch(name.partition("@")[0], pattern)]
        if not names:
            raise ModelError(f"sites[{pattern!r}] matches none of the sites {', '.join(sites)}")
        for name in names:
            found.setdefault(name, Hint(**said))
    return found


def find_gated(model: nn.Module, learned: Learning, hints: Mapping[str, Hint]) -> None:
    """Look for W_O of every site whose unchanged z no matrix takes, and of those that the user gave hints about.

    A gate or a norm of each head leaves heads apart: their parts are taken at W_O's input. Where heads are mixed,
    nothing is shown unless the user has said which axis they are.
    """
    for name, site in learned.sites.items():
        hint = hints.get(name)
        denied = hint is not None and (bool(site.why) or hint.n_heads not in (None, site.n_heads))
        if site.why != NOT_TAKEN and not denied:  # the user says something of it that its cells do not
            continue
        layout = _guess(site.shape, None if hint is None else hint.n_heads)
        wanted = None if hint is None or hint.output is None else _weight(model, site, hint.output)
        met = [each for each in learned.met.get(name, ()) if wanted is None or each.matrix.parameter is wanted]
        found = layout is not None and any(_try(site, layout, each, hint) for each in met)
        if hint is not None and not found:
            said = ", ".join(f"{key}={value!r}" for key, value in vars(hint).items() if value is not None)
            site.why = f"{said}: not to be found in its z of shape {site.shape}"


def _weight(model: nn.Module, site: LearnedSite, said: str) -> Any:
    """The weight of the module that the user says is W_O."""
    paths = dict(model.named_modules())
    own = next((path for path, part in paths.items() if part is site.module), "")
    place = paths.get(f"{own}.{said}" if own else said, paths.get(said))
    if place is None:
        raise ModelError(f"{site.name}: there is no module {said!r} in it, nor in the whole")
    return getattr(place, "weight", place)


def _try(site: LearnedSite, layout: HeadAxes, met: Met, hint: Hint | None) -> bool:
    """Whether the heads of this layout reach a matrix side by side; if so, note how."""
    lead, matrix = site.shape[:-2], met.matrix
    batch, n_heads = layout.to_heads(torch.empty(*lead, 1, 1), lead).shape[:2]

    def from_heads(z: Tensor) -> Tensor:
        return layout.from_heads(z.transpose(1, 2), lead)

    heads = Heads((batch, site.shape[-2], n_heads, site.shape[-1]), from_heads, matrix.channels_last)
    how = how_heads_reach(met.z, met.x, heads)
    if how is None or how[2] == "other" or (how[0] == "mixed" and hint is None):
        return False
    kind, why, rows = how
    order = torch.arange(n_heads * site.shape[-1], device=matrix.x.device)
    cells = _cells(site, layout, rows).to(order.device)
    lines = torch.arange(len(cells), device=order.device)
    site.takes = [MatrixTake(met.index, matrix.weight, matrix.bias, matrix.parameter, lines, order, cells, order)]
    site.layout, site.kind, site.kind_why, site.rows, site.why = layout, kind, why, rows, ""
    return True


def _cells(site: LearnedSite, layout: HeadAxes, rows: Layout) -> Tensor:
    """Which cell of z is where, in rows of W_O's input that hold the heads side by side."""
    table = layout.to_heads(torch.arange(math.prod(site.shape)).view(site.shape), site.shape[:-2]).permute(0, 2, 1, 3)
    return (table if rows == "batch first" else table.transpose(0, 1)).flatten(2).flatten(0, 1)


def _guess(shape: tuple[int, ...], n_heads: int | None) -> HeadAxes | None:
    """Batch and head as the leading axes; where the user says the number of heads, the axis that has it."""
    lead = shape[:-2]
    if n_heads is None:
        return HeadAxes(("batch", "head"), 1) if len(lead) == 2 else None
    kinds: list[AxisKind] = ["batch"] * len(lead)
    for axis in reversed(range(len(lead))):
        if lead[axis] % n_heads == 0:
            kinds[axis] = "head" if lead[axis] == n_heads else "batch head"
            return HeadAxes(tuple(kinds), n_heads if lead[axis] != n_heads else 1)
    return HeadAxes(tuple(kinds), 1) if n_heads == 1 else None
