"""What takes the place of an ablated value: nothing, its mean, or its value at random positions of other texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.errors import EditError
from headscope.models.recording import OpenModel

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
    seen: dict[str, list[Tensor]] = {site: [] for site in sites}

    def note(site: str, call: Call) -> Tensor:
        z = plain(call)
        if site in seen:
            seen[site].append(z[0].detach())
        return z

    with torch.no_grad():
        for text in texts:
            model.run(model.prepare(text).inputs, note)
    return {site: torch.cat(parts, dim=1) for site, parts in seen.items()}


def draw(pool: Float[Tensor, "head position d"], shape: torch.Size, call: Call, seed: int) -> Tensor:
    """z at random positions of the pool, the same for the same seed and position in the text."""
    generator = torch.Generator().manual_seed(seed)
    length = call.first_query + call.q.shape[2]
    places = torch.randint(pool.shape[1], (length,), generator=generator)[call.first_query :]
    return pool[:, places].expand(shape[0], -1, -1, -1)
