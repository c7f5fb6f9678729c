"""Ablate, scale and force: replace the z of heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.checked import checked
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, by_site, listed, names
from headscope.heads.edits.path import Path, ablate_paths
from headscope.heads.edits.replacements import How, RunningMean, draw, refuse_no_texts, z_in_texts
from headscope.models.recording import OpenModel
from headscope.names import HeadName

TOLERANCE = 1e-3  # of the sum of a forced row


@checked
def ablate(*what: HeadName | Path, how: How = "zero", texts: Sequence[Any] = (), seed: int = 0) -> Edit:
    """Ablate heads, or paths from a writer into a head: ``ablate(path("4.3", "5.6", into="k"))``.

    ``mean`` is over the ``texts`` given, else over this text's own positions.
    """
    paths = tuple(each for each in what if isinstance(each, Path))
    if paths and len(paths) < len(what):
        raise EditError(
            "ablate() takes heads or paths; give two edits to do both: edit(ablate('5.1'), ablate(path(…)))"
        )
    if paths:
        return ablate_paths(paths, how, tuple(texts), seed)
    heads = cast(tuple[HeadName, ...], what)
    refuse_no_texts(how, texts, "ablate(…, texts=[…])")
    if not heads:
        raise EditError("ablate() names no head; write ablate('5.1', '5.5')")

    def bind(model: OpenModel) -> BoundEdit:
        sites, running = by_site(model, heads), RunningMean()
        elsewhere = z_in_texts(model, list(sites), texts) if texts and how != "zero" else {}

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site not in sites:
                return z
            z, some = z.clone(), sites[site]
            if how == "zero":
                z[:, some] = 0.0
            elif how == "resample":
                z[:, some] = draw(elsewhere[site][some], z.shape, call, seed).to(z)
            elif site in elsewhere:
                z[:, some] = elsewhere[site][some].mean(dim=1)[None, :, None].to(z)
            else:
                z[:, some] = running.update(site, call, z[:, some])[:, :, None]
            return z

        return BoundEdit(z=change)

    return Edit(f"ablate({listed(heads)};{how};{seed};{tuple(texts)!r})", bind)


@checked
def scale(heads: HeadName | Sequence[HeadName], factor: float) -> Edit:
    """Multiply the z of one head, or of several, by a factor."""

    def bind(model: OpenModel) -> BoundEdit:
        sites = by_site(model, names(heads))

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site in sites:
                z = z.clone()
                z[:, sites[site]] *= factor
            return z

        return BoundEdit(z=change)

    return Edit(f"scale({listed(names(heads))};{factor!r})", bind)


@checked
def force(head: HeadName, pattern: Float[Tensor, "query key"]) -> Edit:
    """Replace a head's pattern. A look inside shows the pattern that its scores would give; z is the forced one."""
    total = pattern.sum(-1)
    if bool((pattern < 0).any()) or not torch.allclose(total, torch.ones_like(total), atol=TOLERANCE):
        worst = int((total - 1).abs().argmax())
        raise EditError(
            f"a forced pattern has rows of weights that are at least 0 and add up to 1; row {worst} adds up to "
            f"{float(total[worst]):.3f}"
        )

    def bind(model: OpenModel) -> BoundEdit:
        found = model.shape.find(head)
        group = model.shape.sites[found.site].group_size

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            if site == found.site:
                z = z.clone()
                z[:, found.head] = _rows(pattern, call).to(call.v) @ call.v[:, found.head // group]
            return z

        return BoundEdit(z=change)

    return Edit(f"force({head};{hash(pattern.numpy().tobytes())})", bind)


def _rows(pattern: Tensor, call: Call) -> Float[Tensor, "query key"]:
    """The rows and columns of a forced pattern that a call is about."""
    n_query, n_key = call.first_query + call.q.shape[2], call.first_key + call.k.shape[2]
    if n_key > pattern.shape[1] or n_query > pattern.shape[0]:
        raise EditError(
            f"the forced pattern is {tuple(pattern.shape)}; this text has {n_query} queries and {n_key} keys"
        )
    rows = pattern[call.first_query : n_query, call.first_key : n_key]
    lost = 1 - rows.sum(-1)
    if bool((lost > TOLERANCE).any()):
        row = int(lost.argmax())
        raise EditError(
            f"row {call.first_query + row} of the forced pattern has {float(lost[row]):.3f} of its weight on keys "
            f"that are not there: this call has the keys {call.first_key}–{n_key - 1}"
        )
    return rows
