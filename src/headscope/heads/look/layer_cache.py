"""Resume a forward pass from cached layer outputs.

Both happen in the thread that asked for them: another pass through the same layers, between two operations of this
one, neither records nor skips anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from headscope.models.modes import hooked
from headscope.models.recording import OpenModel

_skipped: ContextVar[Mapping[int, Any]] = ContextVar("headscope_skipped_layers", default=MappingProxyType({}))
"""Cached outputs by the id of the layer that returns them instead of running, in this context."""

_skipping: dict[int, int] = {}
"""How many contexts skip a layer at present, by the layer's id."""
_own_forward: dict[int, Any] = {}
"""What layers that are skipped had as a ``forward`` of their own."""
_lock = threading.Lock()


class LayerCache:
    """The layers that hold the sites, and the outputs of layers in a recorded pass."""

    def __init__(self, model: OpenModel) -> None:
        self.stack, self.layer_of = _with_sites(model)
        self.outputs: dict[int, Any] = {}

    @contextmanager
    def recording(self, every: int = 1) -> Iterator[None]:
        """Cache the output of every ``every``-th layer in the next pass; the last is not needed."""
        kept = [index for index in range(len(self.stack) - 1) if (index + 1) % every == 0]
        index_of = {id(self.stack[index]): index for index in kept}

        def keep(module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self.outputs.setdefault(index_of[id(module)], output)

        with hooked([self.stack[index] for index in kept], after=keep):
            yield

    @contextmanager
    def skipping_below(self, site: str) -> Iterator[None]:
        """Inside, layers below this site return the cached output nearest to it instead of running."""
        start = max((index for index in self.outputs if index < self.layer_of.get(site, 0)), default=-1)
        layers = [self.stack[index] for index in range(start + 1)]
        token = _skipped.set({**_skipped.get(), **{id(layer): self.outputs[start] for layer in layers}})
        for layer in layers:
            _begin_skipping(layer)
        try:
            yield
        finally:
            for layer in layers:
                _end_skipping(layer)
            _skipped.reset(token)

    def forget_unless_equal(self, run: Callable[[], Tensor], whole: Tensor) -> None:
        """Forget the cache if a pass resumed at the last layer gives other logits: some layers pass on more."""
        if not self.outputs:
            return
        last = max(self.layer_of, key=lambda site: self.layer_of[site])
        with self.skipping_below(last):
            again = run()
        if not torch.allclose(again, whole, rtol=1e-3, atol=1e-3 * float(whole.abs().max())):
            self.outputs.clear()


def _with_sites(model: OpenModel) -> tuple[Sequence[torch.nn.Module], Mapping[str, int]]:
    """The ModuleList whose members each hold one site, and the member of each site; empty if there is none."""
    modules = model.site_modules()
    for candidate in model.model.modules():
        if not isinstance(candidate, torch.nn.ModuleList):
            continue
        at = {
            name: index
            for index, layer in enumerate(candidate)
            for name, module in modules.items()
            if any(module is inner for inner in layer.modules())
        }
        if len(at) == len(modules) and sorted(at.values()) == list(range(len(candidate))):
            return list(candidate), at
    return [], {}


def _begin_skipping(layer: torch.nn.Module) -> None:
    """Let a layer return its cached output, expanded to the batch, in contexts that have one."""
    with _lock:
        _skipping[id(layer)] = _skipping.get(id(layer), 0) + 1
        if _skipping[id(layer)] > 1:
            return
        forward = layer.forward

        def cached(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            def expanded(value: Any) -> Any:
                return value.expand(x.shape[0], *value.shape[1:]) if isinstance(value, Tensor) else value

            if id(layer) not in _skipped.get():
                return forward(x, *args, **kwargs)
            given = _skipped.get()[id(layer)]
            return tuple(expanded(value) for value in given) if isinstance(given, tuple) else expanded(given)

        _own_forward[id(layer)] = layer.__dict__.get("forward")
        layer.forward = cached


def _end_skipping(layer: torch.nn.Module) -> None:
    """Restore a layer's forward when no context skips it any more."""
    with _lock:
        _skipping[id(layer)] -= 1
        if _skipping[id(layer)]:
            return
        del _skipping[id(layer)]
        before = _own_forward.pop(id(layer))
        if before is None:
            del layer.forward
        else:
            layer.forward = before
