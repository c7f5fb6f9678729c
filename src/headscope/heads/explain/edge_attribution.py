"""Score every edge at once: attribution patching with integrated gradients (Hanna et al. 2024, EAP-IG).

The embedding goes from the corrupted to the clean text in steps; at each, one backward pass gives the gradient of the
answer at every reader. An edge's score is what its writer changes from corrupted to clean, along the mean gradient.
Where an answer jumps on its way, because a softmax switches over, steps of equal size would miss it: the steps of each
pair are halved where its answer changes most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.observer import plain
from headscope.attention.progress import report_progress
from headscope.heads.explain.circuit import LOGITS, Edge, Reader
from headscope.heads.explain.edge_patching import PatchedPass, RecordedPairs
from headscope.models.modes import frozen_weights
from headscope.models.structure.points import changed
from headscope.models.structure.recorder import current_recorder

STEPS, HALVED = 4, 6  # steps of equal size, and how often the step is halved in which the answer changes most
Gradients = dict[tuple[Reader, ...], Float[Tensor, "reader ..."]]
"""Of some answer, at the inputs of the readers of each place."""


def score_edges(pairs: RecordedPairs, at: float | None = None) -> dict[Edge, float]:
    """Score every edge: how much the answer gains from it. With ``at``, take one gradient there and no others."""
    ones = torch.ones(len(pairs.clean.logits), device=pairs.clean.logits.device)
    steps = _steps(pairs) if at is None else [(at * ones, ones)]
    readers: dict[Reader, Sequence[str]] = {reader: () for reader, _ in pairs.clean.readers()}
    sums: Gradients = {}
    for number, (places, sizes) in enumerate(steps):
        report_progress("attributing edges", number, len(steps))
        with _embedded(pairs, places):
            found = _gradients(pairs, PatchedPass(pairs.patched, readers), sizes)[1]
        sums |= {place: sums[place].add_(each) if place in sums else each for place, each in found.items()}
    return _along(sums, pairs.clean, pairs.corrupted)


def score_within(pairs: RecordedPairs, edges: Sequence[Edge]) -> tuple[float, dict[Edge, float]]:
    """Return how faithful a circuit is, and to first order what each of its edges adds while the others stay."""
    patched = pairs.patch(edges)
    value, gradients = _gradients(pairs, patched, torch.ones(()))
    scores = _along(gradients, patched, pairs.corrupted)
    return pairs.share(value), {edge: scores.get(edge, 0.0) for edge in edges}


@torch.enable_grad()
def _gradients(pairs: RecordedPairs, patched: PatchedPass, sizes: Float[Tensor, "*pair"]) -> tuple[float, Gradients]:
    """The mean answer, weighed by each pair's step, and its gradient at what readers with inputs of their own read."""
    with frozen_weights(pairs.patched.model.model):
        value = (pairs.metric(patched.run(pairs.inputs).logits) * sizes).mean()
        found = torch.autograd.grad(value, list(patched.inputs.values()), allow_unused=True)
    known = zip(patched.inputs, found, strict=True)
    return float(value.detach()), {place: gradient for place, gradient in known if gradient is not None}


@torch.no_grad()
def _steps(pairs: RecordedPairs) -> list[tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]]:
    """The middle and the size of each pair's steps from corrupted to clean."""

    def answers(places: Tensor) -> Tensor:
        with _embedded(pairs, places):
            return pairs.metric(pairs.patched.model.run(pairs.inputs, lambda _, call: plain(call)).logits)

    clean, corrupted = pairs.clean.logits, pairs.corrupted.logits
    ends = torch.linspace(0, 1, STEPS + 1, device=clean.device).expand(len(clean), -1)
    inner = [answers(ends[:, step]) for step in range(1, STEPS)]
    values = torch.stack([pairs.metric(corrupted), *inner, pairs.metric(clean)], 1).double()
    for _ in range(HALVED):
        left = values.diff(dim=1).abs().argmax(1, keepdim=True)
        middle = (ends.gather(1, left) + ends.gather(1, left + 1)) / 2
        added = answers(middle[:, 0])[:, None].double()
        ends, order = torch.cat([ends, middle], 1).sort(dim=1)
        values = torch.cat([values, added], 1).gather(1, order)
    middles, sizes = (ends[:, 1:] + ends[:, :-1]) / 2, ends.diff(dim=1)
    return list(zip(middles.T, sizes.T, strict=True))


@torch.no_grad()
def _along(gradients: Gradients, now: PatchedPass, old: PatchedPass) -> dict[Edge, float]:
    """The change of every writer from one pass to another, along the gradient at each reader."""
    scores: dict[Edge, float] = {}
    for readers, gradient in gradients.items():
        streams = [each.read[readers[0].place][1] for each in (old, now)]
        before, after = (stream.along(gradient) for stream in streams)
        nothing = torch.zeros(len(readers)).to(gradient)
        for writer in after | before:  # an expert may write in one of the texts alone
            change = after.get(writer, nothing) - before.get(writer, nothing)
            scores |= {Edge(writer, reader): each for reader, each in zip(readers, change.tolist(), strict=True)}
        for stream in streams:
            stream.carried.clear()
    return scores


def _embeddings(state: PatchedPass) -> dict[str, Tensor]:
    """What the modules that embed tokens gave in a pass, by their paths."""
    writers = state.read[LOGITS, ""][1].writers.values()
    sources = [source for writer in writers if writer.kind == "embedding" for source, _ in writer.sources]
    named = state.recorded.embeddings
    return {each.path: each.value for each in sources if each.path in named and each.value is not None}


@contextmanager
def _embedded(pairs: RecordedPairs, places: Float[Tensor, " pair"]) -> Iterator[None]:
    """Let the modules that embed tokens give, for each pair, what is at its place from corrupted (0) to clean (1)."""
    old = _embeddings(pairs.corrupted)
    with ExitStack() as stack:
        for path, value in _embeddings(pairs.clean).items():
            by_pair = value.shape[0] == len(places)
            share = places.to(value).view(-1, *[1] * (value.dim() - 1)) if by_pair else places.mean().to(value)
            mixed = (share * value + (1 - share) * old[path]).detach()

            def given(output: Tensor, mixed: Tensor = mixed) -> Tensor:
                made, recorder = mixed.view_as(output), current_recorder.get()
                if recorder is not None:
                    recorder.tape.mark_input(made)  # a stream begins with it
                return made

            stack.enter_context(changed(pairs.patched.model.model.get_submodule(path), given, is_input=False))
        yield
