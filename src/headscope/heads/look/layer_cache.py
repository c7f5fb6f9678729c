"""Resume a forward pass from cached layer outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from headscope.models.protocol import OpenModel


class LayerCache:
    """The layers that hold the sites, and the outputs of layers in a recorded pass."""

    def __init__(self, model: OpenModel) -> None:
        self.stack, self.layer_of = _with_sites(model)
        self.outputs: dict[int, Any] = {}

    @contextmanager
    def recording(self, every: int = 1) -> Iterator[None]:
        """Cache the output of every ``every``-th layer in the next pass; the last is not needed."""
        kept = [index for index in range(len(self.stack) - 1) if (index + 1) % every == 0]
        handles = [self.stack[index].register_forward_hook(self._keep(index)) for index in kept]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def skipping_below(self, site: str) -> Iterator[None]:
        """Inside, layers below this site return the cached output nearest to it instead of running."""
        start = max((index for index in self.outputs if index < self.layer_of.get(site, 0)), default=-1)
        with ExitStack() as stack:
            for index in range(start + 1):
                stack.enter_context(_returning(self.stack[index], self.outputs[start]))
            yield

    def forget_unless_equal(self, run: Callable[[], Tensor], whole: Tensor) -> None:
        """Forget the cache if a pass resumed at the last layer gives other logits: some layers pass on more."""
        if not self.outputs:
            return
        last = max(self.layer_of, key=lambda site: self.layer_of[site])
        with self.skipping_below(last):
            again = run()
        if not torch.allclose(again, whole, rtol=1e-3, atol=1e-3 * float(whole.abs().max())):
            self.outputs.clear()

    def _keep(self, index: int) -> Any:
        def hook(module: torch.nn.Module, args: Any, output: Any) -> None:
            if index not in self.outputs:
                self.outputs[index] = output

        return hook


def _with_sites(model: OpenModel) -> tuple[Sequence[torch.nn.Module], Mapping[str, int]]:
    """The ModuleList whose members each hold one site, and the member of each site; empty where there is none."""
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


@contextmanager
def _returning(layer: torch.nn.Module, given: Any) -> Iterator[None]:
    """Replace a layer's forward by its cached output, expanded to the batch."""

    def cached(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        def expanded(value: Any) -> Any:
            return value.expand(x.shape[0], *value.shape[1:]) if isinstance(value, Tensor) else value

        return tuple(expanded(value) for value in given) if isinstance(given, tuple) else expanded(given)

    layer.forward = cached
    try:
        yield
    finally:
        del layer.forward
