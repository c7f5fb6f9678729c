"""Record every call that a function makes of a module: the steps of a denoiser, each ready to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from headscope.checked import checked
from headscope.errors import InputError
from headscope.models.any_torch.arguments import Arguments, FunctionInputs, bound
from headscope.models.any_torch.model import AnyTorchModel
from headscope.models.inputs.media import PIXELS
from headscope.models.inputs.media_positions import NOT_TEXT
from headscope.models.protocol import Prepared, SiteObserver, Token


@checked
@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """How steps are looked at.

    ``item``: which item of a batch; the last, which classifier-free guidance gives the prompt. ``words`` label what
    cross-attention reads. ``picture`` makes pixels ``[1, 3, row, column]`` of a step's tensors by name, such as the
    latents decoded; without it the channels of the latents are shown as colours.
    """

    item: int = -1
    words: Sequence[str] = ()
    picture: Callable[[Mapping[str, Tensor]], Tensor] | None = None


@dataclass(frozen=True)
class _ModuleCall:
    """One call of the module: its name, and what it was called with."""

    name: str
    inputs: FunctionInputs

    def prepare(self, opened: AnyTorchModel, options: StepOptions) -> Prepared:
        """What a look at this step reads."""
        inputs = self.inputs
        if options.picture is not None:
            with torch.no_grad():
                pixels = options.picture(dict(inputs))
            inputs = FunctionInputs(inputs.function, {**inputs, PIXELS: pixels})
        words = tuple(Token(NOT_TEXT, word) for word in options.words)
        return replace(opened.prepare(inputs), context=words)


def record_steps(
    opened: AnyTorchModel, function: Callable[..., Any], observer: SiteObserver | None, item: int = -1
) -> list[_ModuleCall]:
    """Run the function once, under the edits in force, and keep what each call of the module was given."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    copies = _Copies()

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(tree_map(copies.of, (args, kwargs)))

    hook = opened.model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        opened.run_function(function, observer)
    finally:
        hook.remove()
    if not calls:
        raise InputError(f"the function did not call {opened.name}; give one that runs all of its steps")
    chosen = [_one_item(call, item) for call in calls]
    bounds = [bound(opened.model, *call) for call in chosen]
    return [
        _ModuleCall(name, FunctionInputs(lambda model, call=call: model(*call[0], **call[1]), each.named()))
        for name, call, each in zip(_names(bounds), chosen, bounds, strict=True)
    ]


class _Copies:
    """Copies of tensors as they are when a call is made: the function may write into them later."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        version = 0 if value.is_inference() else value._version
        key = (id(value), version)
        if value.is_inference() or key not in self._kept:
            self._kept[key] = (value, value.detach().clone())  # with the tensor itself, so that its id stays its own
        return self._kept[key][1]


def _one_item(call: tuple[tuple[Any, ...], dict[str, Any]], item: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call for one item of its batch."""
    tensors = [value for value in tree_leaves(call) if isinstance(value, Tensor) and value.ndim]
    batch = len(tensors[0]) if tensors else 1
    if not -batch <= item < batch:
        raise InputError(f"item={item}: the module is called with a batch of {batch}")

    def chosen(value: Any) -> Any:
        within = isinstance(value, Tensor) and value.ndim and len(value) == batch
        return value[item % batch : item % batch + 1] if within else value

    found: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(chosen, call)
    return found


def _names(calls: Sequence[Arguments]) -> list[str]:
    """Numbers of steps, and the first argument of one number that changes from step to step: the time."""
    numbers = [_numbers(call) for call in calls]
    time = next((name for name in numbers[0] if len({each.get(name) for each in numbers}) > 1), None)
    told = [each.get(time) if time else None for each in numbers]
    return [f"step {at}" + ("" if value is None else f", {time} {value:g}") for at, value in enumerate(told)]


def _numbers(call: Arguments) -> dict[str, float]:
    """Arguments that are one number, or the same one for every item."""
    found = {name: float(value) for name, value in call.others.items() if name in call.numbers}
    for name, value in call.tensors.items():
        if value.ndim < 2 and value.numel() and bool((value == value.flatten()[0]).all()):
            found[name] = float(value.flatten()[0])
    return found
