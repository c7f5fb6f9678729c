"""Score every edge at once: attribution patching with integrated gradients (Hanna et al. 2024, EAP-IG).

The embedding goes from the corrupted to the clean text in steps; at each, one backward pass gives the gradient of the
answer at every reader. An edge's score is what its writer changes from corrupted to clean, along the mean gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.attention.progress import report_progress
from headscope.heads.explain.edge_patching import Circuitry, PatchedModel, Recording, by_reader, run_patched
from headscope.heads.explain.pass_state import LOGITS, Edge, PassState, Place, Reader
from headscope.models.structure.carry import recompute
from headscope.models.structure.recorder import current_recorder
from headscope.models.structure.trace import hooked

STEPS = 5
MIDDLES = tuple((step + 0.5) / STEPS for step in range(STEPS))
"""Where between the corrupted and the clean embedding gradients are taken."""
Metric = Callable[[Tensor], Tensor]
"""From logits ``[pair, position, vocabulary]`` to one number."""


class _Gradients(Recording):
    """Keeps the tensors at which gradients are wanted: q, k and v of every head, MLP inputs, the end of the stream."""

    def __init__(self, patched: PatchedModel) -> None:
        super().__init__(patched)
        self.wanted: dict[tuple[str, str], Tensor] = {}

    def attend(self, state: PassState) -> Any:
        def observe(site: str, call: Call) -> Tensor:
            group = call.q.shape[1] // call.k.shape[1]
            state.calls[site] = call
            sides = {"q": call.q, "k": call.k.repeat_interleave(group, 1), "v": call.v.repeat_interleave(group, 1)}
            for side, value in sides.items():
                self.patched.note_readers(state, site, side, state.stream.node(site, side), self.patched.own[site])
                self.wanted[site, side] = value
            return plain(Call(call.site, sides["q"], sides["k"], sides["v"], call.scores))

        return observe

    def mlp_input(self, state: PassState, layer: str) -> Any:
        note = super().mlp_input(state, layer)

        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            note(module, args, kwargs)
            self.wanted[f"mlp {layer}", ""] = args[0]

        return before

    def logits_input(self, state: PassState) -> Any:
        note = super().logits_input(state)

        def before(module: nn.Module, args: Any, kwargs: Any) -> None:
            note(module, args, kwargs)
            self.wanted[LOGITS, ""] = args[0]

        return before


def score_edges(
    patched: PatchedModel,
    inputs: Mapping[str, Tensor],
    clean: PassState,
    corrupted: PassState,
    metric: Metric,
    at: Sequence[float] = MIDDLES,
) -> dict[Edge, float]:
    """The score of every edge: how much the answer gains from it."""
    means: dict[Reader, Tensor] = {}
    for step, place in enumerate(at):
        report_progress("attributing edges", step, len(at))
        for reader, gradient in _reader_gradients(patched, inputs, (clean, corrupted), place, metric).items():
            share = gradient / len(at)
            means[reader] = means[reader].add_(share) if reader in means else share
    return _along(means, clean, corrupted)


def score_within(
    patched: PatchedModel, inputs: Mapping[str, Tensor], corrupted: PassState, edges: Sequence[Edge], metric: Metric
) -> tuple[float, dict[Edge, float]]:
    """The answer of a circuit, and to first order what each of its edges gives it, the others as they are in it."""
    wanted = by_reader(edges)
    hooks = Circuitry(patched, corrupted, wanted)
    with torch.enable_grad():
        logits, state = run_patched(patched, inputs, hooks)
        value = metric(logits)
        found = torch.autograd.grad(value, list(hooks.inputs.values()), allow_unused=True)
    gradients: dict[Reader, Tensor] = {}
    for place, made in zip(hooks.inputs, found, strict=True):
        readers = hooks.readers[place]
        gradients |= {} if made is None else dict(zip(readers, made, strict=True))
    with torch.no_grad():
        scores = _along(gradients, state, corrupted)
    return float(value.detach()), {edge: scores.get(edge, 0.0) for edge in edges}


@torch.no_grad()
def _along(gradients: Mapping[Reader, Tensor], now: PassState, old: PassState) -> dict[Edge, float]:
    """The change of every writer from one pass to another, along the gradient at each reader."""
    places: dict[Place, list[Reader]] = {}
    for reader in gradients:
        places.setdefault(reader.place, []).append(reader)
    scores: dict[Edge, float] = {}
    for place, readers in places.items():
        stacked = torch.stack([gradients[reader] for reader in readers])
        before = old.along(place, stacked)
        for writer, after in now.along(place, stacked).items():
            for reader, score in zip(readers, (after - before.get(writer, 0.0)).tolist(), strict=True):
                scores[Edge(writer, reader)] = score
        now.forget_carried()
        old.forget_carried()
    return scores


def _embeddings(patched: PatchedModel, state: PassState) -> list[tuple[nn.Module, Tensor]]:
    """The modules that embed tokens, and what they gave in a pass."""
    sources = [
        source for w in state.readers[LOGITS, ""].writers.values() if w.kind == "embedding" for source, _ in w.sources
    ]
    found = [source for source in sources if source.path in state.stream.embeddings and source.value is not None]
    return [(patched.model.model.get_submodule(source.path), source.value) for source in found]  # type: ignore[misc]


def _returning(embedded: Tensor) -> Any:
    def after(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        made = embedded.view_as(output)
        recorder = current_recorder.get()
        assert recorder is not None, "gradients are taken in a recorded pass"
        recorder.tape.mark_input(made)
        return made

    return after


def _reader_gradients(
    patched: PatchedModel, inputs: Mapping[str, Tensor], states: tuple[PassState, PassState], at: float, metric: Metric
) -> dict[Reader, Tensor]:
    """The gradient of the metric at every reader's stream, with the embedding between corrupted and clean."""
    hooks = _Gradients(patched)
    old = {id(module): value for module, value in _embeddings(patched, states[1])}
    with ExitStack() as stack, torch.enable_grad():
        for module, value in _embeddings(patched, states[0]):
            mixed = (at * value + (1 - at) * old[id(module)]).detach().requires_grad_()
            stack.enter_context(hooked([module], after=_returning(mixed)))
        state = stack.enter_context(patched.recorded(hooks))
        state.keeps = True
        logits = patched.model.run(inputs, hooks.attend(state)).logits
        value = metric(logits)
    gradients = torch.autograd.grad(value, list(hooks.wanted.values()), allow_unused=True)
    found: dict[Reader, Tensor] = {}
    for (place, side), gradient in zip(hooks.wanted, gradients, strict=True):
        if gradient is not None:
            found |= _pulled_back(patched, state, (place, side), gradient)
    return found


@torch.enable_grad()
def _pulled_back(
    patched: PatchedModel, state: PassState, where: tuple[str, str], gradient: Tensor
) -> dict[Reader, Tensor]:
    """A gradient at q, k or v of each head, or at an MLP's input, taken back through the reader's norm."""
    place, side = where
    reader = state.readers[where]
    if place == LOGITS:
        return {Reader(LOGITS): gradient}
    assert reader.value is not None
    found: dict[Reader, Tensor] = {}
    if not side:
        stream = reader.value.detach().requires_grad_()
        made = recompute(reader.node, {reader.stream: stream})
        return {Reader(place): torch.autograd.grad(made, stream, gradient)[0]}
    group = gradient.shape[1] // reader.node.shape[1]
    for head in range(gradient.shape[1]):
        stream = reader.value.detach().requires_grad_()
        index = head // group
        columns = patched.columns(state, reader.node, where, index)
        made = recompute(reader.node, {reader.stream: stream}, columns)[:, index]
        found[Reader(f"{place}.{head}", side)] = torch.autograd.grad(made, stream, gradient[:, head])[0]
    return found
