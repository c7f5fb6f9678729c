"""One traced forward pass: which modules attend, where each answer goes, and what attends without telling us."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headscope.models.huggingface.attention import AttentionCall, tracer


@dataclass
class Visit:
    """One attention call of the pass: the module's path, how often it had been called before, and what came in."""

    path: str
    times: int
    arrival: AttentionCall
    version: int
    matrix: str | None = None
    """The path of the module that took z itself as its input."""


@dataclass
class Taken:
    """A leaf module's input and output, kept alive so that storage addresses stay theirs."""

    path: str
    module: nn.Module
    entered: Tensor
    left: Tensor


@dataclass
class Trace:
    """What one pass showed."""

    visits: list[Visit] = field(default_factory=list)
    leaves: list[Taken] = field(default_factory=list)
    blocks: list[Tensor] = field(default_factory=list)
    """What modules that contain attention gave back: states of the residual stream."""
    unseen: dict[str, str] = field(default_factory=dict)
    """Modules that computed a softmax over keys themselves, and how."""
    output: Any = None


def is_matrix(module: nn.Module) -> bool:
    """A weight that a vector is multiplied by: Linear, Conv1D, and their quantised relatives."""
    if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
        return True
    return hasattr(module, "in_features") and hasattr(module, "out_features")


@contextmanager
def tracing(arrive: Callable[[AttentionCall], Tensor] | None) -> Iterator[None]:
    """Inside, every attention call arrives here on its way back to the model, and may leave with another z."""
    token = tracer.set(arrive)
    try:
        yield
    finally:
        tracer.reset(token)


@contextmanager
def hooked(modules: Iterable[nn.Module], *, enter: Any = None, leave: Any = None) -> Iterator[None]:
    """Inside, hooks that see every call of these modules with its keywords; gone however the block ends.

    In this thread alone: whoever runs the same model in another one meanwhile is neither seen nor changed.
    """
    here = threading.get_ident()

    def mine(hook: Any) -> Any:
        return lambda *called: hook(*called) if threading.get_ident() == here else None

    with ExitStack() as hooks:
        for module in modules:
            if enter is not None:
                hooks.callback(module.register_forward_pre_hook(mine(enter), with_kwargs=True).remove)
            if leave is not None:
                hooks.callback(module.register_forward_hook(mine(leave), with_kwargs=True).remove)
        yield


def trace(model: nn.Module, inputs: Mapping[str, Tensor], **call: Any) -> Trace:
    """Run the model once, watching. Our attention function must be installed."""
    watch = _Watch(model)
    elsewhere = _Elsewhere(watch.seen.unseen, watch.stack)
    hooks = hooked(model.modules(), enter=watch.enter, leave=watch.leave)
    with hooks, tracing(watch.arrive), elsewhere, torch.no_grad():
        watch.seen.output = model(**inputs, **call)
    return watch.seen


class _Watch:
    """Who sees a pass: each attention call as it arrives, and each module as it is entered and left."""

    def __init__(self, model: nn.Module) -> None:
        self.seen = Trace()
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.stack: list[str] = []
        self.visits_before: list[int] = []
        self.times: Counter[str] = Counter()

    def arrive(self, arrival: AttentionCall) -> Tensor:
        path = self.paths.get(id(arrival.call.site), type(arrival.call.site).__name__)
        self.times[path] += 1
        self.seen.visits.append(Visit(path, self.times[path], arrival, arrival.z._version))
        return arrival.z

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.paths[id(module)])
        self.visits_before.append(len(self.seen.visits))
        entered = _first_tensor((args, kwargs))
        if entered is not None and is_matrix(module):
            _match(self.seen.visits, self.stack[-1], entered)

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        path, before = self.stack.pop(), self.visits_before.pop()
        entered, left = _first_tensor((args, kwargs)), _first_tensor(output)
        if entered is None or left is None:
            return
        if not next(module.children(), None):
            self.seen.leaves.append(Taken(path, module, entered, left))
        elif len(self.seen.visits) > before:
            self.seen.blocks.append(left)


def _match(visits: list[Visit], path: str, entered: Tensor) -> None:
    """z went into this matrix if they are the same storage, whole and unchanged."""
    for visit in reversed(visits):
        z = visit.arrival.z
        if visit.matrix is None and z.data_ptr() == entered.data_ptr() and z.numel() == entered.numel():
            visit.matrix = path if z._version == visit.version else None
            return


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else None
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return next((found for item in value if (found := _first_tensor(item)) is not None), None)
    return None


_ATTENTIVE = {"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}


class _Elsewhere(TorchFunctionMode):
    """Notices a softmax over keys, or a whole attention, outside our function."""

    def __init__(self, found: dict[str, str], stack: list[str]) -> None:
        super().__init__()
        self.found, self.stack = found, stack

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ATTENTIVE and not _from_us():
            tensor = args[0] if args and isinstance(args[0], Tensor) else None
            if name != "softmax" or (tensor is not None and tensor.ndim >= 3 and tensor.shape[-1] > 1):
                self.found.setdefault(self.stack[-1] if self.stack else "", name)
        return func(*args, **(kwargs or {}))


def _from_us() -> bool:
    """Whether our own attention function is on the stack of calls."""
    import sys

    frame: Any = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("headscope.attention."):
            return True
        frame = frame.f_back
    return False
