"""Find the residual stream around a site, and its layer's MLP output, by comparing the layer's activations.

One pass records every activation of the layer that is as wide as the stream. A writer is a module whose output, times
some factor, is the difference of two recorded activations: the first writer from the attention on is the attention's,
the last is the MLP's. No module is found by its name, and what does not add up is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import ModelError
from headscope.models.structure.trace import hooked

SAMPLE = 8  # positions that are compared
Stream = Float[Tensor, "query d_model"]


class LayerParts(NamedTuple):
    """The stream before and after a site, and what the layer's MLP adds to it; None where none was found."""

    before: Stream
    after: Stream
    mlp: Stream | None


class _Activation(NamedTuple):
    """A module's first input and output, where they are as wide as the stream."""

    module: nn.Module
    given: Stream | None
    made: Stream | None


class _Sum(NamedTuple):
    """``after`` is ``before`` plus ``added``."""

    before: Stream
    after: Stream
    added: Stream


def layer_parts(model: nn.Module, path: str, run: Callable[[], Any]) -> LayerParts:
    """Run the model once and find the residual stream around the attention module at ``path``."""
    layer, attention = _layer_of(model, path), model.get_submodule(path)
    with _recording(layer) as recorded:
        run()
    *inner, whole = recorded
    if whole.given is None or whole.made is None:
        raise ModelError(f"{path}: its layer has no residual stream of one width")
    modules = [each.module for each in inner]
    streams = [each for one in recorded for each in one[1:] if each is not None]
    later = inner[modules.index(attention) :]
    sums = [found for one in later if one.made is not None and (found := _sum_with(one.made, streams))]
    if not sums:
        return _parallel(path, attention, recorded)
    first, last = sums[0], sums[-1]
    if torch.equal(first.after, last.after):
        return LayerParts(first.before, first.after, None)
    normed = [one.made for one in inner if _is(one.given, first.after) and not list(one.module.children())]
    after = last.before if any(_is(one, last.before) for one in normed) else first.after  # a norm on the stream (BERT)
    return LayerParts(first.before, after, last.added)


def _layer_of(model: nn.Module, path: str) -> nn.Module:
    """The repeated block that holds a site: the first member of a ModuleList on the way to it."""
    names = path.split(".")
    for count in range(1, len(names)):
        if isinstance(model.get_submodule(".".join(names[:count])), nn.ModuleList):
            return model.get_submodule(".".join(names[: count + 1]))
    raise ModelError(f"{path} is not in a list of layers, so the residual stream around it cannot be found")


@contextmanager
def _recording(layer: nn.Module) -> Iterator[list[_Activation]]:
    recorded: list[_Activation] = []

    def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        made = output if isinstance(output, tuple) else (output,)
        recorded.append(_Activation(module, _first((*args, *kwargs.values())), _first(made)))

    with hooked(layer.modules(), after=keep):
        yield recorded
    width = None if not recorded or recorded[-1].given is None else recorded[-1].given.shape
    for index, each in enumerate(recorded):
        sized = [one if one is not None and one.shape == width else None for one in each[1:]]
        recorded[index] = _Activation(each.module, *sized)


def _first(values: Any) -> Stream | None:
    found = next((value for value in values if isinstance(value, Tensor) and value.is_floating_point()), None)
    return None if found is None else found.detach().reshape(-1, found.shape[-1])  # a batch of one


def _is(one: Stream | None, other: Stream) -> bool:
    return one is not None and torch.equal(one, other)


def _sum_with(writer: Stream, streams: list[Stream]) -> _Sum | None:
    """Two activations that differ by a multiple of what the writer made."""
    for index, before in enumerate(streams):
        for after in streams[index + 1 :]:
            factors = _fit(after, before, [writer])
            if factors is not None:
                return _Sum(before, after, writer * factors[0])
    return None


def _parallel(path: str, attention: nn.Module, recorded: list[_Activation]) -> LayerParts:
    """Attention and MLP read the same stream and are added together (GPT-J, NeoX)."""
    *inner, whole = recorded
    assert whole.given is not None
    assert whole.made is not None
    inside = set(attention.modules())
    own = [one for one in inner if one.module in inside or attention in one.module.modules()]
    owners = {one.module for one in own}
    for one in own:
        for other in inner:
            if other.module not in owners and one.made is not None and other.made is not None:
                factors = _fit(whole.made, whole.given, [one.made, other.made])
                if factors is not None:
                    after = whole.given + one.made * factors[0]
                    return LayerParts(whole.given, after, other.made * factors[1])
    raise ModelError(f"{path}: what it adds to the residual stream was not found among its layer's activations")


def _fit(after: Stream, before: Stream, writers: list[Stream]) -> list[float] | None:
    """Factors with which the writers make up the difference, within rounding; None if they do not."""
    total, gap = after[-SAMPLE:].double(), (after[-SAMPLE:].double() - before[-SAMPLE:].double()).flatten()
    columns = torch.stack([writer[-SAMPLE:].double().flatten() for writer in writers], dim=1)
    if not bool(gap.any()) or bool((columns == 0).all(0).any()):
        return None
    factors = torch.linalg.lstsq(columns, gap[:, None]).solution[:, 0]
    error = (gap - columns @ factors).norm()
    rounding = 8 * torch.finfo(after.dtype).eps * total.norm()
    if error > rounding or error > 0.05 * gap.norm() or bool((factors.abs() < 1e-4).any()):
        return None
    return [float(factor) for factor in factors]
