"""Measure S-inhibition: how far name movers turn to the wrong name when a head is mean-ablated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.heads.roles.measures import Measurement
from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.heads.roles.task import mean_ablation, run_batch
from headscope.models.protocol import OpenModel
from headscope.names import Head


@torch.no_grad()
def inhibition_effects(
    model: OpenModel, probe: Probe, movers: Sequence[Head], candidates: Sequence[Head]
) -> Measurement:
    """How far the movers' attention turns from receiver to giver without each candidate.

    The rival is the same in counterfactual sentences, where a third person acts: no name is repeated, so there is none
    to inhibit.
    """
    heads = model.shape.heads()

    def effects(batches: Sequence[Batch]) -> Float[Tensor, "input head"]:
        def preference(ablated: Head | None) -> Float[Tensor, " input"]:
            return torch.cat([_preference(model, batch, movers, ablated) for batch in batches])

        found, whole = torch.zeros(probe.n_inputs, len(heads)), preference(None)
        for head in candidates:
            found[:, heads.index(head)] = whole - preference(head)
        return found

    counterfactuals = [batch.counterfactual for batch in probe.batches if batch.counterfactual is not None]
    return Measurement(effects(probe.batches), effects(counterfactuals), ("nobody named twice",) * len(heads))


def _preference(
    model: OpenModel, batch: Batch, movers: Sequence[Head], ablated: Head | None
) -> Float[Tensor, " input"]:
    """The movers' mean attention from the end to the receiver, minus that to both mentions of the giver."""
    to = batch.questions["receiver"]
    questions = {"receiver": to.wanted, "giver": to.rivals["the giver"], "again": to.rivals["the giver again"]}
    end = (to.wanted.query != -1).int().argmax(1)
    attend = (lambda _, call: plain(call)) if ablated is None else mean_ablation(ablated, end)
    found: list[Tensor] = []

    def observer(site: str, call: Call) -> Tensor:
        heads = [mover.head for mover in movers if mover.site == site]
        if heads:
            mass = observe(call.q, call.k, call.v, scores=call.scores, questions=questions, statistics=frozenset()).mass
            preference = mass["receiver"] - mass["giver"] - mass["again"]
            found.append(preference.sum(2)[:, heads].cpu())
        return attend(site, call)

    run_batch(model, batch, observer)
    return torch.cat(found, dim=1).float().mean(1)
