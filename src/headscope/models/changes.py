"""Notice what was changed in a model since it was opened: its weights, or which modules it has.

Modules that were put there since have no hooks, and their heads no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from headscope.errors import ModelError


class WatchedModules:
    """Modules of a model that must stay where they are, and all modules that hold them."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._links: dict[str, tuple[nn.Module, str, nn.Module]] = {}
        """By path: a module's parent, its name there, and the module."""

    def add(self, modules: Iterable[nn.Module | None]) -> None:
        """Watch these modules too."""
        wanted = set(map(id, modules))
        for path in [path for path, module in self._model.named_modules() if id(module) in wanted]:
            parent, names = self._model, path.split(".") if path else []
            for depth, name in enumerate(names):
                child = parent.get_submodule(name)
                self._links.setdefault(".".join(names[: depth + 1]), (parent, name, child))
                parent = child

    def refuse_replaced(self) -> None:
        """Refuse to run a model in which one was replaced: what it computes would be neither seen nor edited."""
        for path, (parent, name, module) in self._links.items():
            if parent._modules.get(name) is not module:
                raise ModelError(
                    f"{path} ({type(module).__name__}) was replaced after the model was opened, so it can be neither "
                    "observed nor edited; open the model again: load(model, …)"
                )

    def refuse_unknown(self, module: nn.Module) -> None:
        """Refuse attention of a module of the model that was not there when it was opened."""
        path = next((path for path, part in self._model.named_modules() if part is module), None)
        if path is not None:
            raise ModelError(
                f"{path} ({type(module).__name__}) attends, but was not there when the model was opened, so it can be "
                "neither observed nor edited; open the model again: load(model, …)"
            )


_put_back: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
"""How many changes of a model's weights have been undone."""


def change_count(model: Any) -> int:
    """How many times weights were changed in place, as an optimiser does; another number means other weights."""
    held = (weight for weight in model.parameters() if weight.device.type != "meta" and not weight.is_inference())
    changed: int = sum(weight._version for weight in held)
    return changed - _put_back.get(model, 0)


@contextmanager
def weights_put_back(model: nn.Module) -> Iterator[None]:
    """Weights may change inside the block, at whose end they are as before: that does not count as a change."""
    before = change_count(model)
    try:
        yield
    finally:
        _put_back[model] = _put_back.get(model, 0) + change_count(model) - before
