"""S-inhibition, by what it does to others: without this head, do the name movers turn towards the wrong person?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.heads.roles.measures import Measured, averaged
from headscope.heads.roles.probes.probe import Batch, Probe
from headscope.models.protocol import OpenModel
from headscope.names import Head


@torch.no_grad()
def inhibition(model: OpenModel, probe: Probe, movers: Sequence[Head], candidates: Sequence[Head]) -> Measured:
    """How far the movers' attention moves from receiver to giver without each candidate, beside the same in twins.

    A twin is the same sentence with a third person acting: nobody is named twice, so there is nobody to inhibit.
    """
    heads = model.shape.heads()
    scores, rivals = (torch.zeros(probe.n_inputs, len(heads)) for _ in range(2))
    whole = [_preference(model, probe, movers, None, twin) for twin in (False, True)]
    for head in candidates:
        column = heads.index(head)
        for into, before, twin in ((scores, whole[0], False), (rivals, whole[1], True)):
            into[:, column] = before - _preference(model, probe, movers, head, twin)
    return Measured(scores, rivals, ("nobody named twice",) * len(heads))


def _preference(
    model: OpenModel, probe: Probe, movers: Sequence[Head], without: Head | None, twin: bool
) -> Float[Tensor, " input"]:
    """The movers' mean attention to the receiver minus both mentions of the giver, where the name is due."""
    found = []
    for whole in probe.batches:
        batch = whole.twin if twin else whole
        assert batch is not None
        found.append(_in_batch(model, batch, movers, without))
    return torch.cat(found)


def _in_batch(model: OpenModel, batch: Batch, movers: Sequence[Head], without: Head | None) -> Float[Tensor, " input"]:
    ask = batch.asks["receiver"]
    questions = {"receiver": ask.wanted, "giver": ask.rivals["the giver"], "again": ask.rivals["the giver again"]}
    end = (ask.wanted.query != -1).int().argmax(1)
    edit = None if without is None else averaged(without, end)
    wanted: dict[str, list[int]] = {}
    for mover in movers:
        wanted.setdefault(mover.site, []).append(mover.head)
    seen: list[Tensor] = []

    def see(site: str, call: Call) -> Tensor:
        if site in wanted:
            mass = observe(call.q, call.k, call.v, scores=call.scores, questions=questions, statistics=frozenset()).mass
            towards = mass["receiver"] - mass["giver"] - mass["again"]
            seen.append(towards.sum(2)[:, wanted[site]].cpu())
        return plain(call) if edit is None else edit(site, call)

    model.run(batch.inputs(model), see)
    return torch.cat(seen, dim=1).float().mean(1)
