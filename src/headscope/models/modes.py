"""Run a model as it was opened: in its own precision and mode, on its device, with its weights and modules.

Whatever PyTorch mode the caller is in. Modules that were put there since have no hooks, and their heads no names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from headscope.attention.progress import uninterrupted
from headscope.errors import ModelError

_DEVICES = ("cpu", "cuda")


@contextmanager
def own_precision() -> Iterator[None]:
    """Leave autocast and inference mode inside the block; gradients stay on or off.

    Autocast would compute q, k and v in different types and patterns in half precision. Tensors made in inference mode
    have no version counter, and no gradient can flow through them.
    """
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            gradients = torch.is_grad_enabled()
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.set_grad_enabled(gradients))
        for kind in _DEVICES:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def ordinary(inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The inputs, with copies of those that were made in inference mode."""
    if not any(isinstance(value, Tensor) and value.is_inference() for value in inputs.values()):
        return inputs
    return {name: value.clone() if value.is_inference() else value for name, value in inputs.items()}


def refuse_training_mode(model: nn.Module, name: str, always: Set[int]) -> None:
    """Refuse a model of which some part is in training mode, but for those (by their ids) that ``eval()`` leaves so."""
    training = ((path, module) for path, module in model.named_modules() if module.training)
    part = next((path for path, module in training if id(module) not in always), None)
    if part is not None:
        where = f" ({part})" if part else ""
        raise ModelError(f"{name}{where} is in training mode, where dropout changes every pass; call model.eval()")


def refuse_inference_weights(model: nn.Module) -> None:
    """Refuse a model that was made inside torch.inference_mode."""
    made_there = next((name for name, weight in model.named_parameters() if weight.is_inference()), None)
    if made_there is not None:
        raise ModelError(
            f"{type(model).__name__} was made inside torch.inference_mode ({made_there} is an inference tensor), so it "
            "cannot be traced; make it outside, or give headscope.load its name"
        )


def device_of(model: nn.Module) -> torch.device:
    """The device for inputs: that of the first weights in memory (offloaded weights are on the meta device)."""
    devices = (weight.device for weight in model.parameters())
    return next((device for device in devices if device.type != "meta"), torch.device("cpu"))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this many CPU threads inside the block: the last digits of a matrix product depend on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def frozen_weights(model: nn.Module) -> Iterator[None]:
    """Compute no gradients of weights inside the block, which nothing else interrupts; nor keep what they need."""
    with uninterrupted(), ExitStack() as stack:
        for weight in [each for each in model.parameters() if each.requires_grad]:
            stack.callback(weight.requires_grad_)
            weight.requires_grad_(False)
        yield


@contextmanager
def hooked(modules: Iterable[nn.Module], *, before: Any = None, after: Any = None) -> Iterator[None]:
    """Call hooks before and after every forward of these modules inside the block, only in this thread."""
    here = threading.get_ident()

    def in_this_thread(hook: Any) -> Any:
        return lambda *called: hook(*called) if threading.get_ident() == here else None

    with ExitStack() as hooks:
        for module in modules:
            if before is not None:
                hooks.callback(module.register_forward_pre_hook(in_this_thread(before), with_kwargs=True).remove)
            if after is not None:
                hooks.callback(module.register_forward_hook(in_this_thread(after), with_kwargs=True).remove)
        yield


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
    """How many times weights were changed in place, as an optimiser does; a new number means new weights."""
    weights = (weight for part in model.modules() for weight in part._parameters.values() if weight is not None)
    held = (weight for weight in weights if weight.device.type != "meta" and not weight.is_inference())
    changed: int = sum(weight._version for weight in held)
    return changed - _put_back.get(model, 0)


@contextmanager
def weights_put_back(model: nn.Module) -> Iterator[None]:
    """Do not count the changes of weights inside the block, which restores them before it ends."""
    before = change_count(model)
    try:
        yield
    finally:
        _put_back[model] = _put_back.get(model, 0) + change_count(model) - before
