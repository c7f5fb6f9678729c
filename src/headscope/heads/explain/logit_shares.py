"""Split a linear reading of the residual stream, such as a logit, over everything that was written into the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.errors import ModelError
from headscope.heads.look.attribution import through_frozen_norm
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import value_of
from headscope.models.structure.tape import Node, Source
from headscope.models.structure.writers import RecordedStream, Writer


def logit_shares(stream: RecordedStream, model: Any, place: int, tokens: Sequence[int]) -> dict[str, float]:
    """Split the logit of a token, less that of a second one if there is one, over the writers of a recorded pass."""
    if stream.final is None:
        raise ModelError(f"{model.shape.name}: the end of its residual stream was not found, so no logit can be split")
    direction = logit_direction(model, value_of(stream.final)[0, place], tokens)
    route = Route(stream.final)
    writers = stream.writers(route)
    gradients = reading_gradients(route, lambda whole: whole[0, place] @ direction.to(whole))
    return {writer.name: writer_share(writer, gradients) for writer in writers}


def logit_direction(model: Any, residual: Tensor, tokens: Sequence[int]) -> Float[Tensor, " d_model"]:
    """The direction of the stream that a logit reads, through the final norm, held at this residual."""
    unembedding = model.unembedding()
    direction = unembedding.weight[tokens[0]].detach().float()
    if len(tokens) > 1:
        direction = direction - unembedding.weight[tokens[1]].detach().float()
    return through_frozen_norm(unembedding.norm, residual, direction)


@torch.enable_grad()
def reading_gradients(route: Route, read: Callable[[Tensor], Tensor]) -> dict[Source, Tensor]:
    """The gradient of a linear reading of the target with respect to every source."""
    leaves = [torch.zeros(source.shape, dtype=torch.float32).requires_grad_() for source in route.sources]
    parts: dict[Node, Tensor] = dict(zip(route.sources, leaves, strict=True))
    made = route.carry_together(parts)
    gradients = torch.autograd.grad(read(made), leaves, allow_unused=True)
    pairs = zip(route.sources, gradients, strict=True)
    return {source: gradient for source, gradient in pairs if gradient is not None}


def writer_share(writer: Writer, gradients: dict[Source, Tensor]) -> float:
    """What one writer gives to a reading."""
    return sum((_inner(source, part, gradients.get(source)) for source, part in writer.sources), 0.0)


def _inner(source: Source, part: int | None, gradient: Tensor | None) -> float:
    """The share of a source, or of one head of it, or of its bias."""
    if gradient is None:
        return 0.0
    if source.heads is None or part is None:
        assert source.value is not None
        return float((source.value.double() * gradient.double()).sum())
    output = source.heads
    if part < 0:
        assert output.bias is not None
        return float((gradient.double() * output.bias.double()).sum())
    rows = gradient.reshape(-1, gradient.shape[-1]).double() @ output.weight[part].double().T
    x = output.x.reshape(-1, output.n_heads, output.weight.shape[1])[:, part].double()
    return float((x * rows).sum())


def value_reading(writer: Writer, gradients: dict[Source, Tensor], position: int) -> Tensor:
    """How a reading depends on a head's z at one position."""
    source, part = writer.sources[0]
    assert source.heads is not None
    assert part is not None
    gradient = gradients[source]
    rows = gradient.reshape(-1, gradient.shape[-1]) @ source.heads.weight[part].float().T
    return rows[position]
