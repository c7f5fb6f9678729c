"""Measure the traits of every head: entropy, distance, strongest weight, locality. No role depends on them."""

from __future__ import annotations

import torch
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call
from headscope.heads.roles.probes.probe import Probe, attention_kind, offset_questions
from headscope.heads.roles.report import rounded
from headscope.heads.roles.task import run_batch
from headscope.models.recording import OpenModel

NEAR = 4

MEANING = {
    "entropy": "mean entropy of its attention, in nats: 0 is all on one token",
    "distance": "mean distance to the attended tokens, in tokens back (negative: ahead)",
    "spread": "standard deviation of that distance within a row, in tokens",
    "strongest": "mean weight of its strongest key",
    "locality": f"share of attention on the token itself and the {NEAR} before it",
}


@torch.no_grad()
def traits(model: OpenModel, probe: Probe) -> dict[str, dict[str, float]]:
    """Means over every row of a probe, per head; sites that the probe does not reach are left out."""
    sums: dict[str, dict[str, Tensor]] = {}
    rows: dict[str, int] = {}

    def observer(site: str, call: Call) -> Tensor:
        known = model.shape.sites.get(site)
        if known is None or attention_kind(known) is None:
            return observe(call.q, call.k, call.v, scores=call.scores, statistics=frozenset()).output
        square = call.q.shape[2] == call.k.shape[2]
        asked = torch.ones(call.q.shape[0], call.q.shape[2], dtype=torch.bool)
        near = offset_questions(asked, range(NEAR + 1)) if square else {}
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
        rows[site] = rows.get(site, 0) + asked.numel()
        return seen.output

    for batch in probe.batches:
        run_batch(model, batch, observer)
    return {
        str(head): {name: rounded(float(values[head.head]) / rows[site]) for name, values in sums[site].items()}
        for site, known in model.shape.sites.items()
        if site in sums
        for head in known.heads()
    }
