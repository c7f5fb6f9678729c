"""What replaces an ablated value: zeros, its mean, or its value at random positions of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call
from headscope.errors import EditError
from headscope.models.recording import OpenModel
from headscope.models.structure.points import Point, values_at

How = Literal["zero", "mean", "resample"]


def refuse_no_texts(how: How, texts: Sequence[Any], example: str) -> None:
    """Refuse resampling from no texts."""
    if how == "resample" and not texts:
        raise EditError(f"resample draws from other texts; give them: {example}")


class RunningMean:
    """The mean of z over this text's positions; while generating, over the positions so far."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Tensor, int]] = {}

    def update(self, site: str, call: Call, z: Float[Tensor, "batch head query d"]) -> Float[Tensor, "batch head d"]:
        before = self._sums.get(site)
        total, count = z.sum(2), z.shape[2]
        if call.first_query and before is not None:
            total, count = total + before[0], count + before[1]
        self._sums[site] = (total, count)
        return total / count


def z_in_texts(model: OpenModel, sites: Sequence[str], texts: Sequence[Any]) -> dict[str, Tensor]:
    """z of every head of these sites at every position of these texts: ``[head, position, d_value]``."""
    points = [Point("z", site) for site in sites]
    seen = [values_at(model, model.prepare(text).inputs, points) for text in texts]
    return {at.where: torch.cat([values[at][0] for values in seen]).transpose(0, 1) for at in points}


def draw(pool: Float[Tensor, "head position d"], shape: torch.Size, call: Call, seed: int) -> Tensor:
    """z at random positions of the pool, the same for the same seed and position in the text."""
    generator = torch.Generator().manual_seed(seed)
    length = call.first_query + call.q.shape[2]
    places = torch.randint(pool.shape[1], (length,), generator=generator)[call.first_query :]
    return pool[:, places].expand(shape[0], -1, -1, -1)
