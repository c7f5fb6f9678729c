"""The arguments that a module is called with: tensors by name, and everything else as it was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import InputError

IDS = "input_ids"
"""What headscope calls a module's token ids, whatever the module calls them."""


class FunctionInputs(dict[str, Tensor]):
    """A function that runs the module, and the tensors that the module gets from it, if they are known."""

    def __init__(self, function: Callable[..., Any], tensors: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(tensors or {})
        self.function = function


@dataclass(frozen=True)
class Arguments:
    """How a module is called. Numbers travel as tensors of one number, and reach the module as numbers."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None

    @property
    def main(self) -> str:
        """The first tensor of the call."""
        return next(iter(self.tensors), "")

    @property
    def numbers(self) -> frozenset[str]:
        return frozenset(name for name, value in self.others.items() if type(value) in (int, float))

    @property
    def ids(self) -> str | None:
        """The argument that holds token ids: the first of integers with more than one axis."""
        whole = (torch.int64, torch.int32)
        wide = [name for name, t in self.tensors.items() if t.dtype in whole and t.ndim == 2]
        return next((name for name in wide if not name.startswith("decoder")), None)

    @property
    def copies_of_ids(self) -> tuple[str, ...]:
        """Arguments that were given the same ids: the targets of a training loss."""
        if self.ids is None:
            return ()
        own = self.tensors[self.ids]
        return tuple(
            n for n, t in self.tensors.items() if n != self.ids and t.shape == own.shape and torch.equal(t, own)
        )

    def named(self) -> dict[str, Tensor]:
        """The tensors by the names that headscope uses."""
        copies = self.copies_of_ids
        return {IDS if name == self.ids else name: t for name, t in self.tensors.items() if name not in copies}

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        """Run the module on these tensors, and on what it was given besides."""
        function = getattr(inputs, "function", None) or self.function
        if function is not None:
            return function(model) if _takes_one(function) else function()
        # copies: a module may write to what it is given
        copied = {name: t.clone(memory_format=torch.contiguous_format) for name, t in inputs.items()}
        given = {(self.ids if name == IDS and self.ids else name): t for name, t in copied.items()}
        if self.ids in given:
            given |= dict.fromkeys(self.copies_of_ids, given[self.ids])
        for name in self.numbers & set(given):
            given[name] = given[name].flatten()[0].item()  # type: ignore[assignment]
        values = {**self.others, **given}
        first = [values.pop(name) for name in self.positional if name in values]
        return model(*first, **values)


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def bind(model: nn.Module, given: Any) -> Arguments:
    """Arguments from a tensor, a tuple of them, tensors by name, or a function that runs the module once."""
    if isinstance(given, Tensor):
        return bound(model, (given,), {})
    if isinstance(given, Mapping):
        return bound(model, (), dict(given))
    if isinstance(given, tuple | list):
        return bound(model, tuple(given), {})
    if callable(given):
        return _captured(model, given)
    raise InputError(
        f"inputs={type(given).__name__}: give a tensor, a tuple of tensors, tensors by name, or a function that runs "
        "the module once"
    )


class _CalledError(Exception):
    """Ends a function that runs a module at its first call of it."""


def _captured(model: nn.Module, function: Callable[..., Any]) -> Arguments:
    """The arguments of the first call that a function makes; the function itself where it calls only parts of it."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def capture(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((args, kwargs))
        raise _CalledError

    hook = model.register_forward_pre_hook(capture, with_kwargs=True)
    try:
        with torch.no_grad(), suppress(_CalledError):
            Arguments(function=function).call(model, {})
    finally:
        hook.remove()
    return bound(model, *calls[0]) if calls else Arguments(function=function)


def bound(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments of one call, by the names of the module's parameters; names that it does not take are left out."""
    takes = inspect.signature(model.forward).parameters
    places = [name for name, p in takes.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [places[place] if place < len(places) else str(place) for place in range(len(args))]
    values = {**dict(zip(names, args, strict=True)), **kwargs}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    known = {*names, *(values if any(p.kind is p.VAR_KEYWORD for p in takes.values()) else takes)}
    others = {name: value for name, value in values.items() if name not in tensors and name in known}
    return Arguments(tensors, others, tuple(names))


def doubled(arguments: Arguments) -> Arguments | None:
    """The same call with a batch of two, where the first axis of every tensor is a batch of one."""
    if arguments.function is not None or not arguments.tensors:
        return None
    if any(t.ndim and t.shape[0] != 1 for t in arguments.tensors.values()):
        return None
    return replace(arguments, tensors={n: torch.cat((t, t)) if t.ndim else t for n, t in arguments.tensors.items()})
