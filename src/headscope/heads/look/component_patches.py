"""Activation patching of MLPs and of the residual stream between two texts, at given positions."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call
from headscope.errors import EditError
from headscope.heads.look.edits import EditFunction
from headscope.heads.look.knock_outs import refuse_positions
from headscope.models.decoding import continues
from headscope.models.protocol import OpenModel
from headscope.models.structure.carry import Route
from headscope.models.structure.readers import probed
from headscope.models.structure.trace import hooked
from headscope.models.structure.writers import RecordedStream

if TYPE_CHECKING:
    from headscope.heads.look.look import Look


@dataclass(frozen=True)
class PatchComponents:
    """At these positions, replace what MLPs write (``mlp 3``), or the stream before a layer (``stream 3``)."""

    components: tuple[str, ...]
    positions: tuple[int, ...]
    source: Look

    def bind(self, model: OpenModel) -> EditFunction:
        if self.source.shape != model.shape:
            raise EditError("patch() takes activations from a look at the same model; this look is at another one")
        stream = probed(model)
        places = [_Place(model, *module_of(model, stream, name)) for name in self.components]
        with torch.no_grad(), ExitStack() as stack:
            for place in places:
                stack.enter_context(place.keeping(self.positions))
            model.run(self.source.prepared.inputs)

        def change(site: str, call: Call, z: Tensor) -> Tensor:
            return z

        @contextmanager
        def during() -> Iterator[None]:
            with ExitStack() as inside:
                for place in places:
                    inside.enter_context(place.patching(self.positions))
                yield

        def refuse_beyond(reached: Mapping[str, tuple[int, int]]) -> None:
            refuse_positions(self.positions, [place.length for place in places])

        change.during, change.refuse_beyond = during, refuse_beyond  # type: ignore[attr-defined]
        return change

    def key(self) -> str:
        return f"patch({','.join(self.components)};{self.positions};{self.source.key})"


class _Place:
    """Where a component's value stands: the output of a module, or its input."""

    def __init__(self, model: OpenModel, module: nn.Module, is_input: bool) -> None:
        self.module, self.is_input = module, is_input
        self.kept: Tensor | None = None
        self.length = 0
        """Positions that have been patched, or passed by."""

    def keeping(self, positions: tuple[int, ...]) -> AbstractContextManager[None]:
        """Keep the component's value at these positions."""

        def keep(value: Tensor) -> None:
            length = _rows(value).shape[1]
            beyond = [position for position in positions if not 0 <= position < length]
            if beyond:
                raise EditError(f"patch() at positions {beyond}: the look it takes from has positions 0–{length - 1}")
            self.kept = _rows(value)[:, list(positions)].detach().clone()

        return self._hooked(keep)

    def patching(self, positions: tuple[int, ...]) -> AbstractContextManager[None]:
        """Replace the component's value at these positions by what was kept."""

        def replace(value: Tensor) -> Tensor:
            rows = _rows(value).clone()
            length = rows.shape[1]
            offset = self.length if length == 1 and continues.get() else 0
            self.length = offset + length
            for column, position in enumerate(positions):
                if 0 <= position - offset < length:
                    assert self.kept is not None
                    rows[:, position - offset] = self.kept[:, column].to(rows)
            return rows.reshape(value.shape)

        return self._hooked(replace)

    def _hooked(self, change: Any) -> AbstractContextManager[None]:
        def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
            made, rest = _change_first(args, change)
            if made:
                return rest, kwargs
            name = next((key for key, value in kwargs.items() if _is_state(value)), None)
            new = None if name is None else change(kwargs[name])
            return (args, {**kwargs, name: new}) if isinstance(new, Tensor) else None

        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            if isinstance(output, Tensor):
                return change(output)
            made, rest = _change_first(output, change)
            return rest if made else None

        return hooked([self.module], before=before) if self.is_input else hooked([self.module], after=after)


def _change_first(values: Any, change: Any) -> tuple[bool, Any]:
    """Change the first state of a tuple; whether anything was changed."""
    for index, value in enumerate(values):
        if _is_state(value):
            new = change(value)
            return isinstance(new, Tensor), (*values[:index], value if new is None else new, *values[index + 1 :])
    return False, values


def _is_state(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def _rows(value: Tensor) -> Tensor:
    return value if value.ndim == 3 else value[None]


def module_of(model: OpenModel, stream: RecordedStream, name: str) -> tuple[nn.Module, bool]:
    """The module that holds a component, and whether it is its input."""
    kind, _, layer = name.partition(" ")
    prefixes = {label: path for path, label in stream.layers.items()}
    if layer not in prefixes or kind not in ("mlp", "stream"):
        raise EditError(
            f"{name!r}: patch() takes heads, 'mlp LAYER' or 'stream LAYER' (before the layer); layers are "
            f"{', '.join(prefixes)}"
        )
    if kind == "stream":
        return model.model.get_submodule(prefixes[layer]), True
    ends = [node for reads in stream.sites.values() for node in reads.nodes.values()]  # cross-attention has two streams
    ends += [] if stream.final is None else [stream.final]
    writers = [writer for end in ends for writer in stream.writers(Route(end))]
    paths = {source.path for w in writers if w.kind == "mlp" and w.layer == layer for source, _ in w.sources}
    if not paths:
        raise EditError(
            f"{name!r}: none of what heads and the final norm read was followed back to an MLP of this layer; "
            "'stream LAYER' patches what the layer before has written"
        )
    common = os.path.commonpath([path.replace(".", "/") for path in paths]).replace("/", ".")
    if not common.startswith(prefixes[layer] + "."):
        raise EditError(f"{name!r}: what this layer writes beside attention is not the output of one module")
    return model.model.get_submodule(common), False
