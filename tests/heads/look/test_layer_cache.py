"""A pass that begins in the middle of a model gives what a whole one gives, and the layers below are not run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from headscope.heads.look.layer_cache import LayerCache
from headscope.scope import Scope


@contextmanager
def counting(layers: LayerCache) -> Iterator[list[int]]:
    """Which layers compute: a layer that answers from memory does not run what is inside it."""
    ran: list[int] = []

    def inside(layer: nn.Module) -> nn.Module:
        return next(module for name, module in layer.named_modules() if name.endswith(("q_proj", "c_attn")))

    handles = [
        inside(layer).register_forward_hook(lambda *_, at=index: ran.append(at))
        for index, layer in enumerate(layers.stack)
    ]
    try:
        yield ran
    finally:
        for handle in handles:
            handle.remove()


def logits(scope: Scope, ids: list[int], copies: int = 1) -> Tensor:
    inputs = scope.model.prepare(ids).inputs
    with torch.no_grad():
        return scope.model.run({name: value.expand(copies, -1) for name, value in inputs.items()}).logits


def recorded(scope: Scope, ids: list[int], every: int = 1) -> LayerCache:
    layers = LayerCache(scope.model)
    with layers.recording(every):
        logits(scope, ids)
    return layers


def test_from_every_layer_up_the_answer_is_the_whole_one(scope: Scope, ids: list[int]) -> None:
    layers, whole = recorded(scope, ids), logits(scope, ids)
    for site, index in layers.layer_of.items():
        with layers.skipping_below(site), counting(layers) as ran:
            again = logits(scope, ids)
        assert torch.equal(again, whole)
        assert ran == list(range(index, len(layers.stack)))


def test_a_change_above_is_felt_and_one_below_is_not(llama: Scope, ids: list[int]) -> None:
    layers, whole = recorded(llama, ids), logits(llama, ids)
    with torch.no_grad():
        for index in (0, 2):
            weight = next(layers.stack[index].parameters())
            kept = weight.clone()
            weight.mul_(2.0)
            with layers.skipping_below("1"):
                moved = not torch.equal(logits(llama, ids), whole)
            assert moved == (index == 2)
            weight.copy_(kept)


@pytest.mark.parametrize(("extra", "enough"), [(0.0, True), (1.0, False)])
def test_a_family_whose_layers_hand_on_more_than_their_state_is_run_whole(
    llama: Scope, ids: list[int], extra: float, enough: bool
) -> None:
    """Here the first layer leaves something beside its output that the last one adds."""
    layers = LayerCache(llama.model)
    left: list[Tensor] = []

    def leave(module: nn.Module, args: object, output: Tensor) -> None:
        left.append(extra * output)

    def add(module: nn.Module, args: object, output: Tensor) -> Tensor:
        return output + left.pop() if left else output

    first, last = layers.stack[0].get_submodule("self_attn"), layers.stack[2]
    handles = [
        first.register_forward_hook(lambda module, args, output: leave(module, args, output[0])),
        last.register_forward_hook(add),
    ]
    try:
        with layers.recording():
            whole = logits(llama, ids)
        layers.forget_unless_equal(lambda: logits(llama, ids), whole)
    finally:
        for handle in handles:
            handle.remove()
    assert bool(layers.outputs) == enough


def test_two_threads_skip_the_same_layers_with_their_own_outputs(scope: Scope, ids: list[int]) -> None:
    other, last = [*reversed(ids)], list(scope.shape.sites)[-1]
    whole, others = logits(scope, ids), logits(scope, other)
    mine, theirs = recorded(scope, ids), recorded(scope, other)
    inside, go_on = threading.Event(), threading.Event()

    def their_pass() -> Tensor:
        with theirs.skipping_below(last):
            inside.set()
            go_on.wait()
            return logits(scope, other)

    with ThreadPoolExecutor(1) as thread:
        passing = thread.submit(their_pass)
        assert inside.wait(60)
        with mine.skipping_below(last):
            assert torch.equal(logits(scope, ids), whole)
        go_on.set()
        assert torch.equal(passing.result(), others)
    assert not any("forward" in vars(layer) for layer in mine.stack), "and the layers are as they were"
