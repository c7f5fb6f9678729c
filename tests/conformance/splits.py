"""Verify that a class's attention scores are split exactly, and that all edges together are the whole model."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headscope.attention import pattern
from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.errors import HeadscopeError
from headscope.heads.explain.edge_patching import PatchedModel, RecordedPairs
from headscope.heads.explain.score_split import SplitScores
from headscope.models.inputs.dummy_inputs import BATCH
from headscope.models.recording import OpenModel
from headscope.models.selfcheck import TOLERANCE as REFUSED
from headscope.models.selfcheck import relative_difference
from headscope.models.structure.recorder import record_stream
from headscope.names import Head

TOLERANCE = 1e-5


def split_of(opened: OpenModel, inputs: dict[str, Tensor]) -> tuple[str, str, float]:
    """Verified, refused or wrong; the reason; and the largest error of any site."""
    one = _item(inputs, 0)
    calls: dict[str, Call] = {}

    def keep(site: str, call: Call) -> Tensor:
        calls[site] = call
        return plain(call)

    try:
        stream = record_stream(opened, one, keep)
    except HeadscopeError as error:
        return "refused", str(error).partition("\n")[0], 0.0
    worst, refused = 0.0, []
    for site, call in calls.items():
        seen = observe(call.q, call.k, call.v, scores=call.scores)
        head = seen.q.shape[1] - 1
        source = pattern.PatternSource(seen.q, seen.k, seen.logsumexp, seen.scores).only(head)
        try:
            scores = SplitScores(stream, Head(site, head), call.k.shape[1] - 1, source)
            errors = [_error(scores, row) for row in {0, scores.n_query // 2, scores.n_query - 1}]
        except HeadscopeError as error:
            refused.append(str(error).partition("\n")[0])
            continue
        worst = max(worst, *errors)
    state = "wrong" if not worst <= TOLERANCE else "refused" if refused else "verified"
    return state, refused[0] if refused else "", worst


def _item(inputs: dict[str, Tensor], item: int) -> dict[str, Tensor]:
    batched = {name for name, value in inputs.items() if value.ndim and len(value) == BATCH}
    return {name: value[item : item + 1] if name in batched else value for name, value in inputs.items()}


def edges_of(opened: OpenModel, inputs: dict[str, Tensor]) -> float | None:
    """How far a circuit of all edges is from the clean answer; None where circuits of this model are refused."""
    clean, corrupted = (_item(inputs, item) for item in range(2))
    try:
        pairs = RecordedPairs(PatchedModel(opened), clean, corrupted, Tensor.mean)
    except HeadscopeError:
        return None
    gap = relative_difference(pairs.logits(pairs.all_edges()), pairs.clean.logits)
    return gap if gap <= REFUSED[torch.float32] else None


def _error(scores: SplitScores, query: int) -> float:
    """The larger error of one row: of the pairs' sums against the scores, and of the pattern rebuilt from writers.

    Both are measured in units of what float32 rounds, where that is more than the tolerance.
    """
    row = scores.row(query)
    if not len(row.visible):
        return 0.0
    q, k = scores.q.parts[:, query].double() * scores.scale, scores.k.parts
    every = [q @ k[:, key].double().T for key in row.visible.tolist()]
    total, size = (torch.stack([each.sum() for each in some]) for some in (every, [each.abs() for each in every]))
    rounded = scores.rounding(query)[row.visible]
    gap = (total - row.raw[row.visible]).abs() / torch.maximum(size, rounded / TOLERANCE).clamp(min=1e-12)
    shape = (len(scores.source.q), 1, -1, -1)
    rebuilt = replace(
        scores.source, q=scores.q.parts.sum(0).expand(*shape), k=k.sum(0).expand(*shape)
    )  # fmt: skip
    again = pattern.weights(rebuilt, torch.tensor([query]), slice(None))[0, 0, 0]
    allowed = max(1.0, float(rounded.max() + 4 * torch.finfo(scores.source.q.dtype).eps * size.max()) / TOLERANCE)
    return max(float(gap.max()), float((again - row.weights).abs().max()) / allowed)
