"""Score every edge at once: attribution patching with integrated gradients (Hanna et al. 2024, EAP-IG).

The embedding goes from the corrupted to the clean text in steps; at each, one backward pass gives the gradient of the
answer at every reader. An edge's score is what its writer changes from corrupted to clean, along the mean gradient.
Where an answer jumps on its way, because a softmax switches over, steps of equal size would miss it: the steps of each
pair are halved where its answer changes most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.attention.observer import Call, plain
from headscope.attention.progress import report_progress
from headscope.heads.explain.edge_patching import Circuitry, PatchedModel, ReaderHooks, by_reader, run_patched
from headscope.heads.explain.pass_state import LOGITS, Edge, PassState, Place, Reader
from headscope.models.modes import hooked
from headscope.models.structure.carry import recompute
from headscope.models.structure.recorder import current_recorder

STEPS, HALVED = 4, 6  # steps of equal size, and how often the step is halved in which the answer changes most
Metric = Callable[[Tensor], Tensor]
"""From logits ``[pair, position, vocabulary]`` to one number per pair."""


class _Gradients(ReaderHooks):
    """Keeps the tensors at which gradients are wanted: q, k and v of every head, MLP inputs, the end of the stream."""

    def __init__(self, patched: PatchedModel) -> None:
        super().__init__(patched)
        self.wanted: dict[tuple[str, str], Tensor] = {}

    def attend(self, state: PassState, site: str, call: Call) -> Tensor:
        group = call.q.shape[1] // call.k.shape[1]  # every head gets a k and v of its own
        state.calls[site] = call
        sides = {"q": call.q, "k": call.k.repeat_interleave(group, 1), "v": call.v.repeat_interleave(group, 1)}
        for side, value in sides.items():
            self.patched.note_readers(state, site, side, state.stream.node(site, side))
            self.wanted[site, side] = value
        return plain(Call(call.site, sides["q"], sides["k"], sides["v"], call.scores))

    def read(self, state: PassState, name: str, x: Tensor | None) -> None:
        super().read(state, name, x)
        assert x is not None, "it reads the stream"
        self.wanted[name, ""] = x


def score_edges(
    patched: PatchedModel,
    inputs: Mapping[str, Tensor],
    clean: PassState,
    corrupted: PassState,
    metric: Metric,
    at: float | None = None,
) -> dict[Edge, float]:
    """The score of every edge: how much the answer gains from it; ``at`` takes one gradient there, and no others."""
    states = clean, corrupted
    steps = _steps(patched, inputs, states, metric) if at is None else [_everywhere(clean, at)]
    sums: dict[Reader, Tensor] = {}
    for number, (places, sizes) in enumerate(steps):
        report_progress("attributing edges", number, len(steps))
        for reader, gradient in _reader_gradients(patched, inputs, states, places, sizes, metric).items():
            sums[reader] = sums[reader].add_(gradient) if reader in sums else gradient
    return _along(sums, clean, corrupted)


def _everywhere(clean: PassState, at: float) -> tuple[Tensor, Tensor]:
    """One place for all pairs, with the weight of the whole way."""
    assert clean.logits is not None
    ones = torch.ones(len(clean.logits), device=clean.logits.device)
    return at * ones, ones


@torch.no_grad()
def _steps(
    patched: PatchedModel, inputs: Mapping[str, Tensor], states: tuple[PassState, PassState], metric: Metric
) -> list[tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]]:
    """The middle and the size of each pair's steps from corrupted to clean."""
    clean, corrupted = states
    assert clean.logits is not None
    assert corrupted.logits is not None
    ends = torch.linspace(0, 1, STEPS + 1, device=clean.logits.device).expand(len(clean.logits), -1)
    inner = [_answers(patched, inputs, states, ends[:, step], metric) for step in range(1, STEPS)]
    values = torch.stack([metric(corrupted.logits), *inner, metric(clean.logits)], 1).double()
    for _ in range(HALVED):
        left = values.diff(dim=1).abs().argmax(1, keepdim=True)
        middle = (ends.gather(1, left) + ends.gather(1, left + 1)) / 2
        answers = _answers(patched, inputs, states, middle[:, 0], metric)
        ends, order = torch.cat([ends, middle], 1).sort(dim=1)
        values = torch.cat([values, answers[:, None].double()], 1).gather(1, order)
    middles, sizes = (ends[:, 1:] + ends[:, :-1]) / 2, ends.diff(dim=1)
    return list(zip(middles.T, sizes.T, strict=True))


def score_within(
    patched: PatchedModel, inputs: Mapping[str, Tensor], corrupted: PassState, edges: Sequence[Edge], metric: Metric
) -> tuple[float, dict[Edge, float]]:
    """The answer of a circuit, and to first order what each of its edges gives it, the others as they are in it."""
    wanted = by_reader(edges)
    hooks = Circuitry(patched, corrupted, wanted)
    with torch.enable_grad():
        logits, state = run_patched(patched, inputs, hooks)
        value = metric(logits).mean()
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
        before, after = old.along(place, stacked), now.along(place, stacked)
        for writer in after | before:  # an expert may write in one of the texts alone
            change = after.get(writer, 0.0) - before.get(writer, torch.zeros(len(readers)).to(stacked))
            for reader, score in zip(readers, change.tolist(), strict=True):
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
    """A hook that replaces what a module gives; in a recorded pass, a stream begins with it."""

    def after(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        made, recorder = embedded.view_as(output), current_recorder.get()
        if recorder is not None:
            recorder.tape.mark_input(made)
        return made

    return after


def _mixed(
    patched: PatchedModel, states: tuple[PassState, PassState], places: Float[Tensor, " pair"]
) -> list[tuple[nn.Module, Tensor]]:
    """The modules that embed tokens, and what they give between corrupted and clean, elsewhere for each pair."""
    old = {id(module): value for module, value in _embeddings(patched, states[1])}
    found = []
    for module, value in _embeddings(patched, states[0]):
        by_pair = value.shape[0] == len(places)
        share = places.to(value).view(-1, *[1] * (value.dim() - 1)) if by_pair else places.mean().to(value)
        found.append((module, (share * value + (1 - share) * old[id(module)]).detach()))
    return found


def _answers(
    patched: PatchedModel,
    inputs: Mapping[str, Tensor],
    states: tuple[PassState, PassState],
    places: Float[Tensor, " pair"],
    metric: Metric,
) -> Float[Tensor, " pair"]:
    """Each pair's answer with its embedding between corrupted and clean."""
    with ExitStack() as stack:
        for module, mixed in _mixed(patched, states, places):
            stack.enter_context(hooked([module], after=_returning(mixed)))
        return metric(patched.model.run(inputs, lambda _site, call: plain(call)).logits)


def _reader_gradients(
    patched: PatchedModel,
    inputs: Mapping[str, Tensor],
    states: tuple[PassState, PassState],
    places: Float[Tensor, " pair"],
    sizes: Float[Tensor, " pair"],
    metric: Metric,
) -> dict[Reader, Tensor]:
    """The gradient of the mean answer, weighed by each pair's step, at every reader's stream between the two texts."""
    hooks = _Gradients(patched)
    with ExitStack() as stack, torch.enable_grad():
        for module, mixed in _mixed(patched, states, places):
            stack.enter_context(hooked([module], after=_returning(mixed.requires_grad_())))
        state = stack.enter_context(patched.recorded(hooks))
        state.keeps = True
        logits = patched.model.run(inputs, partial(hooks.attend, state)).logits
        value = (metric(logits) * sizes).mean()
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
        columns = patched.columns(state, where, index, {reader.stream: stream})
        made = recompute(reader.node, {reader.stream: stream}, columns)[:, index]
        found[Reader(f"{place}.{head}", side)] = torch.autograd.grad(made, stream, gradient[:, head])[0]
    return found
