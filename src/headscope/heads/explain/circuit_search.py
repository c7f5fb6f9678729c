"""Find the circuit of a task: the smallest set of edges found that answers as the whole model does.

Every edge is scored by attribution with integrated gradients; the strongest are then patched for good, one by one; the
circuit grows along the ranking until it is as faithful as wanted, and is pruned of what it does not need: its edges are
scored again in the circuit that is left, and the last ones are tried for good. Its faithfulness is also measured on
pairs that it has not seen, beside random circuits of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headscope.attention.progress import report_progress
from headscope.errors import InputError, ModelError
from headscope.heads.explain.circuit import LOGITS, Circuit, Edge, Measured
from headscope.heads.explain.edge_attribution import score_edges, score_within
from headscope.heads.explain.edge_patching import PatchedModel, RecordedPairs
from headscope.models.recording import OpenModel
from headscope.models.selfcheck import TOLERANCE, relative_difference
from headscope.models.weight_hash import weight_hash

CHECKED = 12  # of the strongest edges, patched for good
RANDOM = 3
FIRST_SHARE = 0.3  # of the edges, left out at once
TRIED = 64  # of the weakest edges that are left, each tried without


def find_circuit(
    model: OpenModel,
    clean: Sequence[Any],
    corrupted: Sequence[Any],
    answers: Sequence[tuple[str | int, str | int]],
    wanted: float = 0.9,
    task: str = "",
) -> Circuit:
    """The smallest circuit found for a task given as pairs of texts with (right, wrong) answers."""
    ids, old, ends = _tensors(model, clean, corrupted, answers)
    if not 0 < wanted <= 1:
        raise InputError(f"wanted={wanted}: faithfulness is between 0 and 1")
    patched = PatchedModel(model)
    pairs = _recorded(patched, ids, old, ends, slice(0, None, 2) if len(ids) > 3 else slice(None))
    if abs(pairs.best - pairs.worst) < 1e-3:
        raise InputError(
            f"the score is {pairs.best:+.3f} on clean texts and {pairs.worst:+.3f} on corrupted ones, so there is no "
            "difference to explain; use pairs whose answers differ"
        )
    every = pairs.all_edges()
    _check_whole(pairs, every)
    scores = score_edges(pairs)
    ranked = sorted(scores, key=lambda edge: -abs(scores[edge]))
    effects = _true_effects(pairs, ranked[:CHECKED])
    curve, size = _grow(pairs, ranked, wanted)
    edges = _prune(pairs, connected(ranked[:size]), wanted)
    held = _recorded(patched, ids, old, ends, slice(1, None, 2)) if len(ids) > 3 else None
    random = _random(pairs, every, len(edges))
    return Circuit(
        model.shape.name, weight_hash(model.model), {str(edge): scores[edge] for edge in edges}, effects,
        {str(edge): score for edge, score in scores.items()}, pairs.faithfulness(edges),
        None if held is None else held.faithfulness(edges), random, tuple(curve), pairs.best, pairs.worst,
        pairs.count, 0 if held is None else held.count, wanted, task,
        {site.name: site.n_heads for site in model.shape.sites.values()},
        pairs.n_right() + (0 if held is None else held.n_right()),
    )  # fmt: skip


def _recorded(patched: PatchedModel, clean: Tensor, corrupted: Tensor, answers: Tensor, some: slice) -> RecordedPairs:
    """Some of the pairs, and the logit difference between the right and the wrong answer of each."""

    def difference(logits: Tensor) -> Tensor:
        ends = logits[:, -1].gather(1, answers[some])
        return ends[:, 0] - ends[:, 1]

    return RecordedPairs(patched, {"input_ids": clean[some]}, {"input_ids": corrupted[some]}, difference)


def _check_whole(pairs: RecordedPairs, every: Sequence[Edge]) -> None:
    """Refuse a model that does not answer as it does when all of its edges are clean: a circuit of it says nothing."""
    logits = pairs.clean.logits
    gap = relative_difference(pairs.logits(every), logits)
    if not gap <= TOLERANCE.get(logits.dtype, 1e-4):
        raise ModelError(
            f"{pairs.patched.model.shape.name}: with all edges clean its logits differ from its own by {gap:.1e} of "
            "the largest, so edges do not carry all that it computes, and no circuit is found"
        )


def _tensors(
    model: OpenModel, clean: Sequence[Any], corrupted: Sequence[Any], answers: Sequence[tuple[str | int, str | int]]
) -> tuple[Tensor, Tensor, Tensor]:
    if not clean or not len(clean) == len(corrupted) == len(answers):
        raise InputError(
            f"{len(clean)} clean texts, {len(corrupted)} corrupted ones, {len(answers)} answers: give as many of each"
        )
    if model.shape.vocabulary is None:
        raise InputError(f"{model.shape.name} predicts no tokens: a task needs an unembedding")
    rows = [[model.prepare(text).inputs["input_ids"][0] for text in texts] for texts in (clean, corrupted)]
    lengths = {len(row) for side in rows for row in side}
    if len(lengths) > 1:
        raise InputError(
            f"texts of {sorted(lengths)} tokens: a circuit is found on texts of one length; choose such pairs"
        )
    tokens = [[model.processor.token_id(each) for each in pair] for pair in answers]
    device = next(model.model.parameters()).device
    return torch.stack(rows[0]).to(device), torch.stack(rows[1]).to(device), torch.tensor(tokens, device=device)


def connected(edges: Sequence[Edge]) -> list[Edge]:
    """Edges that lie on a way from the embedding to the logits."""
    kept = list(edges)
    while True:
        readers = {edge.reader.name for edge in kept}
        writers = {edge.writer for edge in kept}
        start = ("embedding", "position embedding")
        new = [
            edge
            for edge in kept
            if (edge.reader.name == LOGITS or edge.reader.name in writers)
            and (edge.writer in readers or edge.writer.startswith(start))
        ]
        if len(new) == len(kept):
            return new
        kept = new


def _true_effects(pairs: RecordedPairs, strongest: Sequence[Edge]) -> dict[str, float]:
    """What the answer loses when one edge is corrupted and all others are clean."""
    found = {}
    for done, edge in enumerate(strongest):
        report_progress("patching the strongest edges", done, len(strongest))
        found[str(edge)] = pairs.mean(pairs.logits([edge], cut=True)) - pairs.best
    return found


def _grow(pairs: RecordedPairs, ranked: Sequence[Edge], wanted: float) -> tuple[list[Measured], int]:
    """Take four times as many edges until they are faithful enough, then halve the gap."""
    curve: dict[int, float] = {}

    def at(size: int) -> float:
        if size not in curve:
            report_progress("growing the circuit", len(curve), len(curve) + 1)
            curve[size] = pairs.faithfulness(connected(ranked[:size]))
        return curve[size]

    low, size = 0, 8
    while size < len(ranked) and at(size) < wanted:
        low, size = size, size * 4
    size = min(size, len(ranked))
    while size - low > max(1, size // 16):
        middle = (low + size) // 2
        low, size = (low, middle) if at(middle) >= wanted else (middle, size)
    at(size)
    return [Measured(edges, curve[edges]) for edges in sorted(curve)], size


def _prune(pairs: RecordedPairs, edges: list[Edge], wanted: float) -> list[Edge]:
    """Leave out what a faithful circuit does not need: the weakest edges, scored anew in the circuit that is left."""
    kept, scores = edges, score_within(pairs, edges)[1]
    share, runs = FIRST_SHARE, 0
    while True:
        report_progress("pruning the circuit", runs, runs + 1)
        runs, count = runs + 1, max(1, int(share * len(kept)))
        weak = set(sorted(kept, key=lambda edge: abs(scores[edge]))[:count])
        fewer = connected([edge for edge in kept if edge not in weak])
        faithful, found = score_within(pairs, fewer) if fewer else (0.0, {})
        if faithful >= wanted:
            kept, scores = fewer, found
        elif count == 1:
            return _leave_out(pairs, kept, scores, wanted)
        else:
            share /= 2


def _leave_out(pairs: RecordedPairs, edges: list[Edge], scores: Mapping[Edge, float], wanted: float) -> list[Edge]:
    """Try the circuit without each edge for good, weakest first; of a large circuit, without the weakest ones."""
    kept = list(edges)
    weakest = sorted(edges, key=lambda each: abs(scores[each]))[:TRIED]
    for done, edge in enumerate(weakest):
        report_progress("leaving out edges", done, len(weakest))
        fewer = connected([each for each in kept if each != edge])
        if edge in kept and fewer and pairs.faithfulness(fewer) >= wanted:
            kept = fewer
    return kept


def _random(pairs: RecordedPairs, every: Sequence[Edge], size: int) -> tuple[float, ...]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randperm(len(every), generator=generator)[:size].tolist() for _ in range(RANDOM)]
    return tuple(pairs.faithfulness([every[index] for index in chosen]) for chosen in drawn)
