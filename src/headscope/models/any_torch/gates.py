"""Find W_O where something acts on z on the way to it, or where the user says it is.

A gate or a norm of each head changes every number of z and leaves heads apart: head parts are taken at W_O's input.
Where heads are mixed, nothing is shown unless the user has said which axis they are, and then their parts are called
mixed.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.any_torch.axes import AxisKind, HeadAxes
from headscope.models.any_torch.learning import NOT_TAKEN, LearnedSite, Learning, MatrixTake, Met
from headscope.models.structure.weights import Heads, how_heads_reach
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


def find_gated(model: nn.Module, learned: Learning, hints: Mapping[str, Hint]) -> None:
    """Look for W_O of every site whose z no matrix takes as it is, and of those that the user speaks of."""
    for name, site in learned.sites.items():
        hint = hints.get(name)
        if site.why != NOT_TAKEN and not _denied(site, hint):
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


def _denied(site: LearnedSite, hint: Hint | None) -> bool:
    """Whether the user says something of a site that its cells do not."""
    return hint is not None and (bool(site.why) or hint.n_heads not in (None, site.n_heads))


def _cells(site: LearnedSite, layout: HeadAxes, rows: RowOrder) -> Tensor:
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
