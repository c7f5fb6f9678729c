"""Previous-token and induction scores computed apart from the engine: softmax of q·k, written out in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.attention.observer import Call, plain
from headscope.heads.roles.probes.token_probes import repeat
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.models.recording import OpenModel


def patterns(model: OpenModel, ids: Tensor) -> dict[str, Tensor]:
    """Every causal pattern: no engine, no question."""
    seen = {}

    def see(site: str, call: Call) -> Tensor:
        keys = call.k.repeat_interleave(call.q.shape[1] // call.k.shape[1], dim=1).double()
        scores = call.q.double() @ keys.transpose(-1, -2) * call.q.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        seen[site] = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return plain(call)

    with torch.no_grad():
        model.run({"input_ids": ids}, see)
    return seen


def dense_scores(model: OpenModel, inputs: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """By role and head: the mean weight on the token before, and on what followed the earlier copy."""
    start = len(Vocabulary(model).prefix)
    before: dict[str, list[Tensor]] = {}
    after: dict[str, list[Tensor]] = {}
    for batch in repeat(Vocabulary(model), inputs, seed).batches:
        length = (batch.ids.shape[1] - start) // 2
        rows = torch.arange(start + 8, start + 2 * length - 1)
        second = torch.arange(start + length, start + 2 * length - 1)
        for site, pattern in patterns(model, batch.ids).items():
            before.setdefault(site, []).append(pattern[:, :, rows, rows - 1].mean(-1))
            after.setdefault(site, []).append(pattern[:, :, second, second - length + 1].mean(-1))
    return {
        role: {str(head): float(torch.cat(found[head.site])[:, head.head].mean()) for head in model.shape.heads()}
        for role, found in (("previous token", before), ("induction", after))
    }
