"""Trace one forward pass: every attention call, where its z goes, and attention computed outside our function."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from headscope.attention.observer import Call, observing, plain
from headscope.attention.progress import setting
from headscope.models.huggingface.attention import AttentionCall, tracer
from headscope.models.modes import hooked
from headscope.models.structure.tape import Node, SourceNode, Tape


@dataclass
class TracedCall:
    """One attention call: the module's path, how many times it has been called, the call itself, and its z."""

    path: str
    times: int
    attention: AttentionCall
    z: SourceNode
    matrix: str | None = None
    """The path of the first matrix of weights that took z, perhaps gated or normed: W_O."""
    x: Node | None = None
    """The input of that matrix."""


@dataclass
class TracedPass:
    """What one forward pass showed."""

    calls: list[TracedCall] = field(default_factory=list)
    ran: set[str] = field(default_factory=set)
    """Paths of all modules that were called."""
    other_attention: dict[str, str] = field(default_factory=dict)
    """Paths of modules that computed a softmax over keys themselves, and the function they used."""
    output: Any = None


def is_matrix(module: nn.Module) -> bool:
    """Whether a module multiplies by a weight matrix: Linear, Conv1D, and their quantised variants."""
    if isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
        return True
    return hasattr(module, "in_features") and hasattr(module, "out_features")


def trace(model: nn.Module, inputs: Mapping[str, Tensor], **arguments: Any) -> TracedPass:
    """Run the model once and trace it. Our attention function must be installed."""
    run = _Tracer(model)
    for value in (*inputs.values(), *arguments.values()):
        if isinstance(value, Tensor):
            run.tape.mark_input(value)
    hooks = hooked(model.modules(), before=run.before, after=run.after)
    outside = _OtherAttention(run.tape.stack, run.trace.other_attention)
    with hooks, setting(tracer, run.on_call), observing(_unrecorded), outside, run.tape, torch.no_grad():
        run.trace.output = model(**inputs, **arguments)
    return run.trace


def _unrecorded(call: Call) -> Tensor:
    with _disable_current_modes():
        return plain(call)


class _Tracer:
    """Fills a trace from attention calls and module hooks."""

    def __init__(self, model: nn.Module) -> None:
        self.trace = TracedPass()
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.tape = Tape(only_z=True)
        self.times: Counter[str] = Counter()

    def on_call(self, attention: AttentionCall) -> Tensor:
        path = self.paths.get(id(attention.call.site), type(attention.call.site).__name__)
        self.times[path] += 1
        z = self.tape.mark_z(attention.z, str(len(self.trace.calls)))
        self.trace.calls.append(TracedCall(path, self.times[path], attention, z))
        return attention.z

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.tape.stack.append(self.paths[id(module)])
        self.trace.ran.add(self.tape.path)
        first = _first_tensor((args, kwargs)) if is_matrix(module) else None
        node = None if first is None else self.tape.z_in(first)
        for number in () if node is None else node.z:
            call = self.trace.calls[int(number)]
            if call.matrix is None:
                call.matrix, call.x = self.tape.path, node

    def after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.tape.stack.pop()


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else None
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return next((found for item in value if (found := _first_tensor(item)) is not None), None)
    return None


_ATTENTION_FUNCTIONS = {"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}


class _OtherAttention(TorchFunctionMode):
    """Detects a softmax over keys, or a whole attention, outside our function."""

    def __init__(self, stack: list[str], found: dict[str, str]) -> None:
        super().__init__()
        self.stack, self.found = stack, found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ATTENTION_FUNCTIONS and not _inside_headscope():
            scores = args[0] if args else (kwargs or {}).get("input")
            if name != "softmax" or (isinstance(scores, Tensor) and scores.ndim >= 3 and scores.shape[-1] > 1):
                self.found.setdefault(self.stack[-1] if self.stack else "", name)
        return func(*args, **(kwargs or {}))


def _inside_headscope() -> bool:
    """Whether our own attention function is on the stack of calls."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("headscope.attention."):
            return True
        frame = frame.f_back
    return False
