"""Patch and steer: put values of another look into a pass, or add a vector to the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.checked import checked
from headscope.errors import EditError
from headscope.heads.edits.edit import BoundEdit, Edit, Reached, by_site, listed, names
from headscope.models.recording import OpenModel
from headscope.models.structure.points import Change, Point, module_of
from headscope.models.structure.readers import probed
from headscope.names import HeadName

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


@checked
def patch(
    heads: HeadName | Point | Sequence[HeadName | Point], positions: int | Sequence[int], from_look: Look
) -> Edit:
    """Patch the z of heads at these positions with their z in another look.

    ``"mlp_out 3"`` patches what the MLP of a layer returns, ``"resid_pre 3"`` the residual stream before the layer,
    ``"resid_post 3"`` after it, ``"attn_out 3"`` what its attention returns.
    """
    places = (positions,) if isinstance(positions, int) else tuple(positions)
    given: tuple[Any, ...] = (heads,) if isinstance(heads, Point) else names(cast(Any, heads))
    points = [Point.parse(name) for name in given if isinstance(name, str | Point) and " " in str(name)]
    if points and len(points) < len(given):
        raise EditError("patch() takes heads or points of the stream; give two edits to do both")

    def bind(model: OpenModel) -> BoundEdit:
        if from_look.shape != model.shape:
            raise EditError("patch() takes activations from a look at the same model; this look is at another one")
        return _points(points, places, from_look) if points else _z(model, given, places, from_look)

    return Edit(f"patch({listed(given)};{places};{from_look.key})", bind)


@checked
def steer(point: str | Point, vector: Float[Tensor, " d_model"], positions: int | Sequence[int] | None = None) -> Edit:
    """Add a vector at a point of the stream, such as ``"resid_pre 6"``: everywhere, or at these positions."""
    at = Point.parse(point)
    places = None if positions is None else (positions,) if isinstance(positions, int) else tuple(positions)

    def change(value: Tensor, first: int) -> Tensor:
        if places is None:
            return value + vector.to(value)
        value = value.clone()
        here = [place - first for place in places if 0 <= place - first < value.shape[1]]
        value[:, here] += vector.to(value)
        return value

    def bind(model: OpenModel) -> BoundEdit:
        if tuple(vector.shape) != (model.shape.d_model,):
            raise EditError(
                f"steer() with a vector of shape {tuple(vector.shape)}; this model's d_model is {model.shape.d_model}"
            )
        module_of(model, probed(model), at)
        return BoundEdit(
            points={at: change}, refuse_beyond=lambda reached: _refuse_beyond("steer", places or (), [str(at)], reached)
        )

    return Edit(f"steer({at};{places};{hash(vector.detach().cpu().float().numpy().tobytes())})", bind)


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

    return BoundEdit(z=change, refuse_beyond=lambda reached: _refuse_beyond("patch", positions, list(sites), reached))


def _points(points: Sequence[Point], positions: tuple[int, ...], source: Look) -> BoundEdit:
    values = source.cache.values_at(points)
    _refuse_source(positions, [value.shape[1] for value in values.values()])
    taken = {point: value[:, list(positions)] for point, value in values.items()}

    def putting(point: Point) -> Change:
        def put(value: Tensor, first: int) -> Tensor:
            value = value.clone()
            for column, position in enumerate(positions):
                if 0 <= position - first < value.shape[1]:
                    value[:, position - first] = taken[point][:, column].to(value)
            return value

        return put

    return BoundEdit(
        points={point: putting(point) for point in points},
        refuse_beyond=lambda reached: _refuse_beyond("patch", positions, list(map(str, points)), reached),
    )


def _refuse_source(positions: Sequence[int], lengths: Sequence[int]) -> None:
    beyond = [position for position in positions if not 0 <= position < min(lengths)]
    if beyond:
        raise EditError(f"patch() at positions {beyond}: the look it takes from has positions 0–{min(lengths) - 1}")


def _refuse_beyond(what: str, positions: Sequence[int], places: Sequence[str], reached: Reached) -> None:
    """Refuse positions that a text does not have at each of these sites or points."""
    length = min([reached[place][0] for place in places if place in reached], default=max(positions, default=0) + 1)
    beyond = [position for position in positions if position >= length]
    if beyond:
        raise EditError(f"{what}() at positions {beyond}: this text has the positions 0–{length - 1} there")
