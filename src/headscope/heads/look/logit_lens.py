"""Logit lens: the model's own way from the end of its residual stream to the logits, begun at every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headscope.errors import ModelError
from headscope.heads.look.sampling import Prediction, strongest_predictions
from headscope.models.modes import hooked
from headscope.models.structure.points import Point
from headscope.models.structure.readers import probed

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


def logit_lens(look: Look, place: int, count: int) -> dict[str, list[Prediction]]:
    """The likeliest tokens of ``resid_pre`` of every layer at one position, and of the end of the stream."""
    model, end = look.model, look.model.unembedding_input()
    if end is None:
        raise ModelError(
            f"{look.shape.name}: the end of its residual stream was not found, and the lens looks from there"
        )
    side = "decoder" if look.prepared.decoder_tokens else ""
    points = [Point("resid_pre", label) for label in probed(model).layers.values() if label.startswith(side)]
    last: list[Tensor] = []
    with hooked([end], before=lambda module, args, kwargs: last.append(args[0])):
        values = {str(point): value[0, place] for point, value in look.cache.values_at(points).items()}
    values["logits"] = last[0][0, place]
    rows = torch.split(torch.stack(list(values.values())), len(look.written))
    logits = torch.cat([look.cache.from_end(some) for some in rows])
    return {name: strongest_predictions(model, row, count) for name, row in zip(values, logits, strict=True)}
