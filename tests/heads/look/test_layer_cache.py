"""A pass that begins in the middle of a model gives what a whole one gives, and the layers below are not run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
import transformers
from torch import Tensor, nn

import headscope
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


def test_every_site_is_in_a_layer_and_layers_are_in_order(scope: Scope) -> None:
    layers = LayerCache(scope.model)
    assert layers.layer_of == {name: index for index, name in enumerate(scope.shape.sites)}
    assert len(layers.stack) == len(scope.shape.sites)
    modules = scope.model.site_modules()
    for name, index in layers.layer_of.items():
        assert any(module is modules[name] for module in layers.stack[index].modules())


def test_from_every_layer_up_the_answer_is_the_whole_one(scope: Scope, ids: list[int]) -> None:
    layers, whole = recorded(scope, ids), logits(scope, ids)
    for site, index in layers.layer_of.items():
        with layers.skipping_below(site), counting(layers) as ran:
            again = logits(scope, ids)
        assert torch.equal(again, whole)
        assert ran == list(range(index, len(layers.stack)))


def test_several_copies_of_a_text_begin_from_the_one_that_was_recorded(scope: Scope, ids: list[int]) -> None:
    layers, whole = recorded(scope, ids), logits(scope, ids)
    with layers.skipping_below(scope.shape.heads()[-1].site):
        again = logits(scope, ids, copies=3)
    assert again.shape[0] == 3
    torch.testing.assert_close(again, whole.expand_as(again))


@pytest.mark.parametrize(("every", "kept"), [(1, [0, 1]), (2, [1]), (3, []), (9, [])])
def test_so_many_layers_are_remembered_and_never_the_last(
    llama: Scope, ids: list[int], every: int, kept: list[int]
) -> None:
    layers, whole = recorded(llama, ids, every), logits(llama, ids)
    assert sorted(layers.outputs) == kept
    for site, index in layers.layer_of.items():
        begins = max((layer + 1 for layer in kept if layer < index), default=0)
        with layers.skipping_below(site), counting(layers) as ran:
            again = logits(llama, ids)
        assert ran == list(range(begins, 3)), "from the nearest layer below that was kept"
        assert torch.equal(again, whole)


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


def test_afterwards_the_layers_are_their_own_again(scope: Scope, ids: list[int]) -> None:
    whole = logits(scope, ids)
    layers = recorded(scope, ids)
    with pytest.raises(ZeroDivisionError), layers.skipping_below(scope.shape.heads()[-1].site):
        _ = 1 / 0
    assert not any("forward" in vars(layer) for layer in layers.stack)
    assert not any(layer._forward_hooks for layer in layers.stack), "nothing is remembered any more"
    with counting(layers) as ran:
        assert torch.equal(logits(scope, ids), whole)
    assert ran == list(range(len(layers.stack)))


def test_what_was_given_first_is_kept(llama: Scope, ids: list[int]) -> None:
    layers = LayerCache(llama.model)
    with layers.recording():
        whole = logits(llama, ids)
        logits(llama, ids[::-1])
    with layers.skipping_below("2"):
        assert torch.equal(logits(llama, ids), whole)


def test_a_site_of_no_layer_skips_nothing(llama: Scope, ids: list[int]) -> None:
    layers = recorded(llama, ids)
    with layers.skipping_below("encoder.7"), counting(layers) as ran:
        logits(llama, ids)
    assert ran == [0, 1, 2]


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


def test_nothing_is_run_again_where_nothing_was_remembered(llama: Scope) -> None:
    def never() -> Tensor:
        raise AssertionError("there is nothing to try")

    LayerCache(llama.model).forget_unless_equal(never, torch.zeros(1))


def test_two_stacks_are_no_stack(ids: list[int]) -> None:
    """Of a model that reads one text and writes another no list of layers holds all sites, so none is skipped."""
    config = transformers.T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    with headscope.load(transformers.T5ForConditionalGeneration(config).eval()) as scope:
        layers = LayerCache(scope.model)
        assert (list(layers.stack), dict(layers.layer_of)) == ([], {})
        with layers.recording(), layers.skipping_below("decoder.1"):
            assert not layers.outputs


def test_another_thread_s_pass_is_neither_recorded_nor_skipped(scope: Scope, ids: list[int]) -> None:
    other, last = [*reversed(ids)], list(scope.shape.sites)[-1]
    whole, others = logits(scope, ids), logits(scope, other)
    layers = LayerCache(scope.model)
    with ThreadPoolExecutor(1) as thread:
        with layers.recording():
            thread.submit(logits, scope, other).result()
            assert not layers.outputs
            logits(scope, ids)
        with layers.skipping_below(last):
            assert torch.equal(thread.submit(logits, scope, other).result(), others)
            assert torch.equal(logits(scope, ids), whole)


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
