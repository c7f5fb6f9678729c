"""Every role tried on every head: probes made, measured once each, and judged. Nothing is named here yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import Collected, Measured, Wanted, collect, where, why_no_logits
from headscope.heads.roles.probes.probe import Probe
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.s_inhibition import inhibition
from headscope.heads.roles.significance import holm, passes, signed_ranks
from headscope.models.protocol import OpenModel
from headscope.names import Head

MOST_MOVERS = 4


@dataclass(frozen=True)
class Tried:
    """One role on every head. ``asked`` are the heads it was put to; ``p`` is not corrected yet."""

    role: Role
    measured: tuple[Measured, ...]
    pieces: tuple[Float[Tensor, " head"], ...]
    enough: Bool[Tensor, " head"]
    asked: Bool[Tensor, " head"]

    @property
    def p(self) -> Float[Tensor, " head"]:
        """All pieces have to hold, so the weakest of them speaks."""
        return torch.stack(self.pieces).amax(0)

    @property
    def score(self) -> Float[Tensor, " head"]:
        return self.measured[0].scores.double().mean(0)


@dataclass(frozen=True)
class Trials:
    """What was tried, and for what could not be, why."""

    tried: dict[str, Tried]
    untested: dict[str, str]
    probes: dict[str, Probe]
    collected: dict[str, Collected]

    @property
    def family(self) -> int:
        """How many questions were put in all: heads times roles."""
        return sum(int(tried.asked.sum()) for tried in self.tried.values())

    def corrected(self) -> dict[str, Float[Tensor, " head"]]:
        """Holm over every head and role of the model."""
        flat = torch.cat([tried.p[tried.asked] for tried in self.tried.values()]) if self.tried else torch.zeros(0)
        done, at = {}, 0
        adjusted = holm(flat.double())
        for name, tried in self.tried.items():
            values = torch.ones(len(tried.asked), dtype=torch.float64)
            count = int(tried.asked.sum())
            values[tried.asked] = adjusted[at : at + count]
            done[name], at = values, at + count
        return done

    def named(self, alpha: float) -> dict[str, Bool[Tensor, " head"]]:
        p = self.corrected()
        return {name: tried.enough & tried.asked & (p[name] <= alpha) for name, tried in self.tried.items()}


def make_probes(vocabulary: Vocabulary, roles: Sequence[Role], count: int, seed: int) -> dict[str, Probe | str]:
    """Each probe once; a sentence where it cannot be made for this model."""
    made: dict[str, Probe | str] = {}
    for role in roles:
        if role.probe.name not in made and why_not(vocabulary.model, role) is None:
            try:
                made[role.probe.name] = role.probe.make(vocabulary, count, seed).cut(vocabulary.model)
            except (UntestableError, InputError) as reason:
                made[role.probe.name] = str(reason)
    return made


def why_not(model: OpenModel, role: Role) -> str | None:
    """Why a role cannot be put to this model at all; None if it can."""
    kinds = {where(site) for site in model.shape.sites.values()}
    if not kinds & role.sites:
        return f"it has no {' or '.join(sorted(role.sites))} attention"
    if any(evidence.kind not in ("attention", "accuracy") for evidence in role.evidence):
        return why_no_logits(model)
    return None


def run_trials(model: OpenModel, roles: Sequence[Role], probes: dict[str, Probe | str], alpha: float) -> Trials:
    """Measure every role on every head it can be put to."""
    untested: dict[str, str] = {}
    able: list[Role] = []
    for role in roles:
        reason = why_not(model, role)
        probe = probes.get(role.probe.name)
        if reason is None and isinstance(probe, str):
            reason = probe
        if reason is None:
            able.append(role)
        else:
            untested[role.name] = reason
    ready = {name: probe for name, probe in probes.items() if isinstance(probe, Probe)}
    collected = {name: collect(model, ready[name], _wanted(able, name)) for name in {r.probe.name: 0 for r in able}}
    trials = Trials({}, untested, ready, collected)
    for role in able:
        if any(evidence.kind == "effect" for evidence in role.evidence):
            _try_effect(model, role, trials, alpha)
        else:
            measured = [_measure(role, collected, index) for index in range(len(role.evidence))]
            trials.tried[role.name] = _try(model, role, measured)
    _leave_out_the_powerless(trials, alpha)
    return trials


def _leave_out_the_powerless(trials: Trials, alpha: float) -> None:
    """A role whose inputs are so few that even a perfect head could not rule out chance was not tested."""
    family = trials.family
    needed = math.ceil(math.log2(max(family, 1) / alpha))
    for name, tried in list(trials.tried.items()):
        count = min(len(measured.scores) for measured in tried.measured)
        if count < needed:
            del trials.tried[name]
            trials.untested[name] = (
                f"{count} inputs cannot rule out chance among {family} questions; it takes at least {needed}"
            )


def _wanted(roles: Sequence[Role], probe: str) -> Wanted:
    wanted = Wanted()
    for role in roles:
        if role.probe.name != probe:
            continue
        for evidence in role.evidence:
            if evidence.kind == "attention":
                kinds = wanted.asks.get(evidence.of, frozenset()) | role.sites
                wanted = replace(wanted, asks={**wanted.asks, evidence.of: kinds})
            elif evidence.kind == "reading":
                wanted = replace(wanted, readings=wanted.readings | {evidence.of})
            elif evidence.kind == "accuracy":
                wanted = replace(wanted, arcs=wanted.arcs | {evidence.of})
            elif evidence.kind == "share":
                wanted = replace(wanted, shares=True)
    return wanted


def _measure(role: Role, collected: dict[str, Collected], index: int) -> Measured:
    evidence, found = role.evidence[index], collected[role.probe.name]
    if evidence.kind == "attention":
        return found.attention(evidence.of)
    if evidence.kind == "reading":
        return found.reading(evidence.of)
    if evidence.kind == "accuracy":
        return found.accuracy(evidence.of)
    return found.share(1 if evidence.of == "+" else -1)


def _try(model: OpenModel, role: Role, measured: Sequence[Measured]) -> Tried:
    kinds = [where(model.shape.sites[head.site]) in role.sites for head in model.shape.heads()]
    asked = torch.tensor(kinds)
    enough = torch.ones_like(asked)
    pieces = []
    for evidence, each in zip(role.evidence, measured, strict=True):
        asked = asked & ~each.scores.isnan().any(0)
        clean, rival = each.scores.nan_to_num(0.0), each.rivals.nan_to_num(0.0)
        enough = enough & passes(clean, rival, evidence.threshold, evidence.margin)
        pieces.append(signed_ranks(clean - rival))
    return Tried(role, tuple(measured), tuple(pieces), enough, asked)


def _try_effect(model: OpenModel, role: Role, trials: Trials, alpha: float) -> None:
    """The movers have to be found before anything can be seen to act on them."""
    heads = model.shape.heads()
    movers = _movers(trials, heads, alpha)
    if not movers:
        trials.untested[role.name] = "no name mover was found in this model, so there is nothing to act upon"
        return
    first = _measure(role, trials.collected, 0)
    order = list(model.shape.sites)
    last = max(order.index(mover.site) for mover in movers)
    attends = passes(
        first.scores.nan_to_num(0.0), first.rivals.nan_to_num(0.0), role.evidence[0].threshold, role.evidence[0].margin
    )
    able = zip(heads, attends.tolist(), strict=True)
    candidates = [head for head, ok in able if ok and order.index(head.site) < last]
    effect = inhibition(model, trials.probes[role.probe.name], movers, candidates)
    trials.tried[role.name] = _try(model, role, (first, effect))


def _movers(trials: Trials, heads: Sequence[Head], alpha: float) -> list[Head]:
    tried = trials.tried.get(BATTERY["name mover"].name)
    if tried is None:
        return []
    named = tried.enough & tried.asked & (holm(tried.p) <= alpha)
    best = tried.score.masked_fill(~named, -1.0).argsort(descending=True)[:MOST_MOVERS]
    return [heads[index] for index in best.tolist() if bool(named[index])]
