"""Activation patching: put the z of heads, or the values at points of the stream, from one look into another pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headscope.attention.observer import Call
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, Reached, by_site, listed, names
from headscope.heads.edits.points import Change, Point, changing
from headscope.models.protocol import OpenModel
from headscope.names import HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


def patch(heads: HeadName | Sequence[HeadName], positions: int | Sequence[int], from_look: Look) -> Edit:
    """Patch the z of heads at these positions with their z in another look.

    ``"mlp_out 3"`` patches what the MLP of a layer writes, ``"resid_pre 3"`` the residual stream before the layer.
    """
    places = (positions,) if isinstance(positions, int) else tuple(positions)
    given = (heads,) if isinstance(heads, str) else names(heads)
    points = [point for name in given if (point := Point.parse(name)) is not None]
    if points and len(points) < len(given):
        raise EditError("patch() takes heads or points of the stream; give two edits to do both")

    def bind(model: OpenModel) -> BoundEdit:
        if from_look.shape != model.shape:
            raise EditError("patch() takes activations from a look at the same model; this look is at another one")
        return _points(model, points, places, from_look) if points else _z(model, names(heads), places, from_look)

    return Edit(f"patch({listed(given)};{places};{from_look.key})", bind)


def _z(model: OpenModel, heads: Sequence[HeadName], positions: tuple[int, ...], source: Look) -> BoundEdit:
    sites = by_site(model, heads)
    _refuse_source(positions, [source.z(site).shape[1] for site in sites])
    cut_up = [site for site in sites if site in source.n_windows]
    if cut_up:
        raise EditError(f"patch() at {', '.join(cut_up)}: a look holds only the first of their windows")
    taken = {site: source.z(site)[:, list(positions)] for site in sites}

    def change(site: str, call: Call, z: Tensor) -> Tensor:
        if site not in sites:
            return z
        z, some = z.clone(), sites[site]
        for column, position in enumerate(positions):
            if 0 <= position - call.first_query < z.shape[2]:
                z[:, some, position - call.first_query] = taken[site][some, column].to(z)
        return z

    return BoundEdit(z=change, refuse_beyond=lambda reached: _refuse_beyond(positions, list(sites), reached))


def _points(model: OpenModel, points: Sequence[Point], positions: tuple[int, ...], source: Look) -> BoundEdit:
    taken: dict[Point, Tensor] = {}

    def keeping(point: Point) -> Change:
        def keep(value: Tensor, first: int) -> Tensor:
            _refuse_source(positions, [value.shape[1]])
            taken[point] = value[:, list(positions)].detach().clone()
            return value

        return keep

    def putting(point: Point) -> Change:
        def put(value: Tensor, first: int) -> Tensor:
            value = value.clone()
            for column, position in enumerate(positions):
                if 0 <= position - first < value.shape[1]:
                    value[:, position - first] = taken[point][:, column].to(value)
            return value

        return put

    with torch.no_grad(), changing(model, {point: keeping(point) for point in points}, {}):
        model.run(source.prepared.inputs)
    return BoundEdit(
        points={point: putting(point) for point in points},
        refuse_beyond=lambda reached: _refuse_beyond(positions, list(map(str, points)), reached),
    )


def _refuse_source(positions: Sequence[int], lengths: Sequence[int]) -> None:
    beyond = [position for position in positions if not 0 <= position < min(lengths)]
    if beyond:
        raise EditError(f"patch() at positions {beyond}: the look it takes from has positions 0–{min(lengths) - 1}")


def _refuse_beyond(positions: Sequence[int], places: Sequence[str], reached: Reached) -> None:
    """Refuse positions that a text does not have everywhere that is patched."""
    length = min([reached[place][0] for place in places if place in reached], default=max(positions, default=0) + 1)
    beyond = [position for position in positions if position >= length]
    if beyond:
        raise EditError(f"patch() at positions {beyond}: this text has the positions 0–{length - 1} there")
