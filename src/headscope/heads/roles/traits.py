"""Traits: how a head attends, whatever it attends to. Every head has them, and none is named for them."""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call
from headscope.heads.roles.measures import where
from headscope.heads.roles.probes.probe import Probe, offsets
from headscope.heads.roles.report import rounded
from headscope.models.protocol import OpenModel

NEAR = 4

MEANING = {
    "entropy": "how widely it spreads, in nats: 0 is one token",
    "distance": "how far back it looks on average, in tokens (below 0: ahead)",
    "spread": "how much that varies within a row, in tokens",
    "strongest": "the weight of its strongest key, on average",
    "locality": f"the share that stays within {NEAR} tokens back, itself included",
}


@torch.no_grad()
def traits(model: OpenModel, probe: Probe) -> dict[str, dict[str, float]]:
    """Means over every row of a probe, head by head; sites that the probe does not reach are left out."""
    sums: dict[str, dict[str, Tensor]] = {}
    rows: dict[str, int] = {}

    def see(site: str, call: Call) -> Tensor:
        known = model.shape.sites.get(site)
        if known is None or where(known) is None:
            return observe(call.q, call.k, call.v, scores=call.scores, statistics=frozenset()).output
        square = call.q.shape[2] == call.k.shape[2]
        asking = torch.ones(call.q.shape[0], call.q.shape[2], dtype=torch.bool)
        near = offsets(asking, range(NEAR + 1)) if square else {}
        seen = observe(call.q, call.k, call.v, scores=call.scores, questions=near)
        found = {
            "entropy": seen.entropy,
            "distance": seen.distance.mean,
            "spread": seen.distance.std,
            "strongest": seen.strongest.weight,
        }
        if near:
            found["locality"] = torch.stack([seen.mass[name] for name in near]).sum(0)
        totals = sums.setdefault(site, {})
        for name, values in found.items():
            totals[name] = totals.get(name, torch.zeros(values.shape[1])) + values.double().sum((0, 2)).cpu()
        rows[site] = rows.get(site, 0) + asking.numel()
        return seen.output

    for batch in probe.batches:
        model.run(batch.inputs(model), see)
    return {
        str(head): {name: rounded(float(values[head.head]) / rows[site]) for name, values in sums[site].items()}
        for site, known in model.shape.sites.items()
        if site in sums
        for head in known.heads()
    }
