"""Find W_O where markers do not survive on the way to it: by gradients, or where the user says it is.

A gate or a norm of each head changes every number of z and leaves heads apart: slice h of W_O's input then depends on
head h alone, and head parts are taken at W_O's input. Where heads are mixed, nothing is shown unless the user has said
which axis they are, and then their parts are called mixed.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.any_torch.axes import AxisKind, Layout
from headscope.models.any_torch.function_mode import FoundCall, MatrixUse
from headscope.models.any_torch.markers import NOT_TAKEN, LearnedSite, MatrixTake, Passing
from headscope.models.any_torch.matrices import Matrix, as_matrix
from headscope.models.protocol import HeadSum
from headscope.models.structure.weights import LOCAL, MIXED, SEVERAL
from headscope.models.structure.weights import Layout as RowOrder


@dataclass(frozen=True)
class Hint:
    """What the user says of one site: its W_O, as a path from the site's module or from the whole, and its heads."""

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


def find_gated(
    model: nn.Module, run: Callable[[], Any], passing: Passing, sites: dict[str, LearnedSite], hints: Mapping[str, Hint]
) -> None:
    """Look for W_O of every site whose markers were lost, and of those that the user speaks of."""
    lost = {name: site for name, site in sites.items() if site.why == NOT_TAKEN or _denied(site, hints.get(name))}
    search = _Search(model, {}, hints)
    for name, site in lost.items():
        layout = _guess(site.shape, hints[name].n_heads if name in hints else None)
        if layout is not None:
            search.layouts[name] = layout
    search.sites = lost
    if search.layouts:
        with passing(search.visit, search.on_matrix), torch.enable_grad():
            run()
    for name in lost:
        if name in hints and name not in search.found:
            said = ", ".join(f"{key}={value!r}" for key, value in vars(hints[name]).items() if value is not None)
            sites[name].why = f"{said}: not to be found in its z of shape {sites[name].shape}"


def _denied(site: LearnedSite, hint: Hint | None) -> bool:
    """Whether the user says something of a site that the markers do not."""
    return hint is not None and (bool(site.why) or hint.n_heads not in (None, site.n_heads))


def _cells(site: LearnedSite, layout: Layout, rows: RowOrder) -> Tensor:
    """Which cell of z is where, in rows of W_O's input that hold the heads side by side."""
    table = layout.to_heads(torch.arange(math.prod(site.shape)).view(site.shape), site.shape[:-2]).permute(0, 2, 1, 3)
    return (table if rows == "batch first" else table.transpose(0, 1)).flatten(2).flatten(0, 1)


def _guess(shape: tuple[int, ...], n_heads: int | None) -> Layout | None:
    """Batch and head as the leading axes; where the user says the number of heads, the axis that has it."""
    lead = shape[:-2]
    if n_heads is None:
        return Layout(("batch", "head"), 1) if len(lead) == 2 else None
    kinds: list[AxisKind] = ["batch"] * len(lead)
    for axis in reversed(range(len(lead))):
        if lead[axis] % n_heads == 0:
            kinds[axis] = "head" if lead[axis] == n_heads else "batch head"
            return Layout(tuple(kinds), n_heads if lead[axis] != n_heads else 1)
    return Layout(tuple(kinds), 1) if n_heads == 1 else None


class _Search:
    """One pass with gradients from z of the sites in question."""

    def __init__(self, model: nn.Module, layouts: dict[str, Layout], hints: Mapping[str, Hint]) -> None:
        self.model, self.layouts, self.hints = model, layouts, hints
        self.sites: dict[str, LearnedSite] = {}
        self.waiting: dict[str, Tensor] = {}
        self.found: set[str] = set()

    def visit(self, found: FoundCall) -> Tensor:
        z = found.own().detach()
        layout = self.layouts.get(found.site)
        if layout is None or found.shape != self.sites[found.site].shape:
            return z
        leaf = layout.to_heads(z, found.lead).transpose(1, 2).contiguous().requires_grad_()
        self.waiting[found.site] = leaf
        return layout.from_heads((leaf * 1).transpose(1, 2), found.lead)

    def on_matrix(self, use: MatrixUse) -> Tensor | None:
        matrix = as_matrix(use)
        if matrix is None:
            return None
        for name, z in list(self.waiting.items()):
            fits = matrix.channels_last(matrix.x).shape[-1] == z.shape[2] * z.shape[3]
            if matrix.x.requires_grad and fits and self._wanted(name, matrix):
                self._try(name, z, use, matrix)
        return matrix.with_input(matrix.x.detach()).detach()

    def _wanted(self, name: str, matrix: Matrix) -> bool:
        said = self.hints[name].output if name in self.hints else None
        if said is None:
            return True
        paths = dict(self.model.named_modules())
        own = next((path for path, part in paths.items() if part is self.sites[name].module), "")
        place = paths.get(f"{own}.{said}" if own else said, paths.get(said))
        if place is None:
            raise ModelError(f"{name}: there is no module {said!r} in it, nor in the whole")
        return matrix.parameter is getattr(place, "weight", None)

    def _try(self, name: str, z: Tensor, use: MatrixUse, matrix: Matrix) -> None:
        how = _dependence(matrix.channels_last(matrix.x), z)
        if how is None:
            return
        kind, why, rows = how
        if rows == "other" or (kind == "mixed" and name not in self.hints):
            del self.waiting[name]
            return
        site, width = self.sites[name], z.shape[2] * z.shape[3]
        order = torch.arange(width, device=z.device)
        cells = _cells(site, self.layouts[name], rows).to(z.device)
        lines = torch.arange(len(cells), device=z.device)
        site.takes = [MatrixTake(use.index, matrix.weight, matrix.bias, matrix.parameter, lines, order, cells, order)]
        site.layout, site.kind, site.kind_why, site.rows, site.why = self.layouts[name], kind, why, rows, ""
        self.found.add(name)
        del self.waiting[name]


def _dependence(x: Tensor, z: Tensor) -> tuple[HeadSum, str, RowOrder] | None:
    """How W_O's input depends on z; None if it does not, or if it is not by head at all."""
    batch, n_query, n_heads, d_value = z.shape
    slices = x.reshape(-1, n_heads, d_value)
    generator = torch.Generator(device="cpu").manual_seed(0)
    direction = torch.randn(slices.shape[0], d_value, generator=generator).to(x)
    local = True
    for head in {0, n_heads - 1}:
        (gradient,) = torch.autograd.grad((slices[:, head] * direction).sum(), z, retain_graph=True, allow_unused=True)
        if gradient is None or not gradient.any():
            return None
        strength = gradient.abs().sum((0, 1, 3))
        local = local and bool((strength[torch.arange(n_heads, device=z.device) != head] == 0).all())
    layout: RowOrder = "other"
    if tuple(x.shape[:2]) == (batch, n_query) or (x.ndim == 2 and len(x) == batch * n_query):
        layout = "batch first"
    elif tuple(x.shape[:2]) == (n_query, batch):
        layout = "query first"
    if local and _same_rows(x, z):
        return "exact", SEVERAL if layout == "other" else "", layout
    return ("head-local", LOCAL, layout) if local else ("mixed", MIXED, layout)


def _same_rows(x: Tensor, z: Tensor) -> bool:
    """Whether the rows of one are rows of the other, in any order or number."""
    left, right = ({row.tobytes() for row in t.detach().float().cpu().reshape(-1, x.shape[-1]).numpy()} for t in (x, z))
    return left <= right or right <= left
