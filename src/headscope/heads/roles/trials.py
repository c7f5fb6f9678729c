"""Measure every role on every head and compute its p-values; ``run`` decides which heads pass which role's test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.attention.engine import observe
from headscope.attention.observer import Call, plain
from headscope.errors import InputError
from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import (
    Advance,
    Measure,
    Measurement,
    ProbeResults,
    run_probe,
    why_no_logit_attribution,
)
from headscope.heads.roles.probes.probe import AttentionKind, Batch, Probe, attention_kind
from headscope.heads.roles.probes.vocabulary import UntestableError, Vocabulary
from headscope.heads.roles.task import TaskAblation, mean_ablation
from headscope.models.protocol import SiteObserver
from headscope.models.recording import OpenModel
from headscope.names import Head

EXACT_UP_TO = 200


def signed_ranks(differences: Float[Tensor, "input head"]) -> Float[Tensor, " head"]:
    """Each head's p-value: the chance of a rank sum at least this large if every sign were equally likely.

    Wilcoxon's test over inputs, one-sided and exact: no normal distribution is assumed where 32 inputs meet thousands
    of tests. Ties and zeros are ranked against the head.
    """
    n = len(differences)
    if n == 0:
        return torch.ones(differences.shape[1], dtype=torch.float64)
    values = differences.double()
    against = (values <= 0).double()
    # By size, and among equal sizes those against the head last, where ranks are highest.
    order = against.argsort(dim=0, stable=True)
    order = order.gather(0, values.abs().gather(0, order).argsort(dim=0, stable=True))
    ranks = torch.arange(1, n + 1, dtype=torch.float64)[:, None]
    total = (ranks * (1 - against.gather(0, order))).sum(0)
    return _tail(n)[total.long()] if n <= EXACT_UP_TO else _normal_tail(total, n)


@cache
def _tail(n: int) -> Tensor:
    """P(sum of the positive ranks ≥ s) for every s, when each of 1…n is positive with probability one half."""
    chances = torch.zeros(n * (n + 1) // 2 + 1, dtype=torch.float64)
    chances[0] = 1.0
    for rank in range(1, n + 1):
        shifted = torch.zeros_like(chances)
        shifted[rank:] = chances[:-rank]
        chances = (chances + shifted) / 2
    tail: Tensor = chances.flip(0).cumsum(0).flip(0).clamp(max=1.0)
    return tail


def _normal_tail(total: Tensor, n: int) -> Tensor:
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    tail: Tensor = torch.special.ndtr(-(total - mean - 0.5) / variance**0.5)
    return tail


def holm(p: Float[Tensor, " test"]) -> Float[Tensor, " test"]:
    """P-values corrected for all tests together (Holm 1979)."""
    order = p.argsort(stable=True)
    factors = torch.arange(len(p), 0, -1, dtype=p.dtype)
    stepped = (p[order] * factors).cummax(0).values.clamp(max=1.0) if len(p) else p
    corrected = torch.empty_like(p)
    corrected[order] = stepped
    return corrected


def passes_threshold(
    scores: Float[Tensor, "input head"], rivals: Float[Tensor, "input head"], threshold: float, margin: float
) -> Bool[Tensor, " head"]:
    """Whether the mean score reaches its threshold, and exceeds the mean rival by the margin."""
    score, rival = scores.double().mean(0), rivals.double().mean(0)
    return (score >= threshold) & (score - rival >= margin)


STOPPED = "stopped before it was tested"
MOVER, MOST_MOVERS = BATTERY["name mover"].name, 4


@dataclass(frozen=True)
class RoleScores:
    """One role on every head: ``tested`` says on which. The p-values, one per measure, are not corrected yet."""

    role: Role
    measured: tuple[Measurement, ...]
    p_values: tuple[Float[Tensor, " head"], ...]
    above_threshold: Bool[Tensor, " head"]
    tested: Bool[Tensor, " head"]

    @property
    def p(self) -> Float[Tensor, " head"]:
        """The largest p-value: all measures have to hold."""
        return torch.stack(self.p_values).amax(0)

    @property
    def score(self) -> Float[Tensor, " head"]:
        return self.measured[0].scores.double().mean(0)

    def named(self, corrected_p: Float[Tensor, " head"], alpha: float) -> Bool[Tensor, " head"]:
        return self.above_threshold & self.tested & (corrected_p <= alpha)


@dataclass
class Trials:
    """The roles that were tested, and the reasons why others were not."""

    scores: dict[str, RoleScores]
    untested: dict[str, str]
    probes: dict[str, Probe]
    results: dict[str, ProbeResults]
    waiting: dict[str, tuple[Role, int]] = field(default_factory=dict)
    """Roles without scores yet, and how many heads they apply to: these tests count in the correction."""
    stopped: str = ""
    """At which probe the user stopped."""

    @property
    def family(self) -> int:
        """The number of tests that p-values are corrected for: heads times roles."""
        measured = sum(int(each.tested.sum()) for each in self.scores.values())
        return measured + sum(count for _, count in self.waiting.values())

    def corrected(self) -> dict[str, Float[Tensor, " head"]]:
        """P-values after Holm's correction over every head and role of the model."""
        if not self.scores:
            return {}
        tested = [each.p[each.tested] for each in self.scores.values()]
        every = torch.ones(self.family, dtype=torch.float64)
        every[: sum(map(len, tested))] = torch.cat(tested).double()
        corrected = torch.split(holm(every)[: sum(map(len, tested))], [len(p) for p in tested])
        return {
            name: torch.ones(len(each.tested), dtype=torch.float64).masked_scatter(each.tested, p)
            for (name, each), p in zip(self.scores.items(), corrected, strict=True)
        }

    def named(self, alpha: float, floors: Mapping[str, float] | None = None) -> dict[str, Bool[Tensor, " head"]]:
        """Return the heads that pass each role's test; a score also has to exceed the role's floor, if it has one."""
        p, floors = self.corrected(), floors or {}
        return {
            name: each.named(p[name], alpha) & (each.score > floors.get(name, -1.0))
            for name, each in self.scores.items()
        }


def make_probes(vocabulary: Vocabulary, roles: Sequence[Role], count: int, seed: int) -> dict[str, Probe | str]:
    """Make each probe once; where one does not fit this model, the reason instead."""
    made: dict[str, Probe | str] = {}
    for role in roles:
        if role.probe.name not in made and why_untestable(vocabulary.model, role) is None:
            try:
                made[role.probe.name] = role.probe.make(vocabulary, count, seed).fit_memory(vocabulary.model)
            except (UntestableError, InputError) as reason:
                made[role.probe.name] = str(reason)
    return made


def why_untestable(model: OpenModel, role: Role) -> str | None:
    """Why a role cannot be tested on this model at all; None if it can."""
    no_text = why_no_text(model)
    if no_text is not None:
        return no_text
    kinds = {attention_kind(site) for site in model.shape.sites.values()}
    if not kinds & role.sites:
        return f"it has no {' or '.join(sorted(role.sites))} attention"
    if any(evidence.kind != "attention" for evidence in role.evidence):
        return why_no_logit_attribution(model)
    return None


_reads_no_text: WeakKeyDictionary[torch.nn.Module, str | None] = WeakKeyDictionary()


def why_no_text(model: OpenModel) -> str | None:
    """Why a model cannot be given the texts that probes are made of; None if it can. Tried once."""
    if model.model not in _reads_no_text:
        reason = None
        try:
            with torch.no_grad():
                model.run(model.prepare([1, 2, 1]).inputs)
        except (InputError, RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            ours = isinstance(error, InputError) and error.__cause__ is None
            alone = "probes are texts, and this model does not run on a text alone"
            reason = f"probes are texts: {error}" if ours else alone
        _reads_no_text[model.model] = reason
    return _reads_no_text[model.model]


def measure_roles(
    model: OpenModel,
    roles: Sequence[Role],
    probes: dict[str, Probe | str],
    alpha: float,
    advance: Advance = lambda _: None,
) -> Trials:
    """Measure every role but those that are an effect on heads of another role, which ``score_effects`` does.

    Ctrl-C ends it: roles whose probe was not finished are untested, and count in the correction all the same.
    """
    ready = {name: probe for name, probe in probes.items() if isinstance(probe, Probe)}
    trials = Trials({}, {}, ready, {})
    for role in roles:
        probe = probes.get(role.probe.name)
        reason = why_untestable(model, role) or (probe if isinstance(probe, str) else None)
        if reason is None:
            trials.waiting[role.name] = (role, int(_applies(model, role).sum()))
        else:
            trials.untested[role.name] = reason
    testable = [role for role, _ in trials.waiting.values()]
    for name in dict.fromkeys(role.probe.name for role in testable):
        try:
            trials.results[name] = run_probe(model, ready[name], _requested(testable, name), advance)
        except KeyboardInterrupt:
            trials.stopped = name
            break
    for role in testable:
        if role.probe.name not in trials.results:
            trials.untested[role.name] = STOPPED
        elif not _is_effect(role):
            measured = [_measurement(role, trials, index) for index in range(len(role.evidence))]
            trials.scores[role.name] = _score(model, role, measured)
            del trials.waiting[role.name]
    _drop_underpowered(trials, alpha)
    return trials


def score_effects(model: OpenModel, trials: Trials, alpha: float, floors: Mapping[str, float] | None = None) -> None:
    """Measure the roles that are an effect on name movers; a name mover has to pass its test like any other role."""
    movers = _name_movers(trials, model.shape.heads(), alpha, floors)
    for name, (role, _) in list(trials.waiting.items()):
        if not _is_effect(role) or name in trials.untested:
            continue
        if movers:
            _score_effect(model, role, trials, movers)
        elif MOVER in trials.scores or MOVER in trials.untested:
            trials.untested[name] = "it needs a name-mover head, and none was found in this model"
        else:
            trials.untested[name] = f"it acts upon name movers: test the role {MOVER} with it"
        del trials.waiting[name]
    _drop_underpowered(trials, alpha)


def _is_effect(role: Role) -> bool:
    return any(evidence.kind == "effect" for evidence in role.evidence)


def _applies(model: OpenModel, role: Role) -> Bool[Tensor, " head"]:
    """Which heads a role can be tested on."""
    return torch.tensor([attention_kind(model.shape.sites[h.site]) in role.sites for h in model.shape.heads()])


def _drop_underpowered(trials: Trials, alpha: float) -> None:
    """Mark roles as untested whose inputs are so few that even a perfect head could not rule out chance."""
    family = trials.family
    needed = math.ceil(math.log2(max(family, 1) / alpha))
    for name, role in list(trials.scores.items()):
        count = min(len(measured.scores) for measured in role.measured)
        if count < needed:
            del trials.scores[name]
            trials.untested[name] = (
                f"{count} inputs cannot rule out chance among {family} questions; it takes at least {needed}"
            )


def _requested(roles: Sequence[Role], probe: str) -> dict[tuple[Measure, str], frozenset[AttentionKind]]:
    requested: dict[tuple[Measure, str], frozenset[AttentionKind]] = {}
    for role in roles:
        for evidence in role.evidence if role.probe.name == probe else ():
            measure = (evidence.kind, evidence.of)
            requested[measure] = requested.get(measure, frozenset()) | role.sites
    return requested


def _measurement(role: Role, trials: Trials, index: int) -> Measurement:
    evidence = role.evidence[index]
    return trials.results[role.probe.name].measurement(evidence.kind, evidence.of)


def _score(model: OpenModel, role: Role, measured: Sequence[Measurement]) -> RoleScores:
    tested = _applies(model, role)
    above = torch.ones_like(tested)
    p_values = []
    for evidence, each in zip(role.evidence, measured, strict=True):
        tested = tested & ~each.scores.isnan().any(0)
        scores, rivals = each.scores.nan_to_num(0.0), each.rivals.nan_to_num(0.0)
        above = above & passes_threshold(scores, rivals, evidence.threshold, evidence.margin)
        above = above if each.wins is None else above & each.wins
        p_values.append(signed_ranks(scores - rivals))
    return RoleScores(role, tuple(measured), tuple(p_values), above, tested)


def _score_effect(model: OpenModel, role: Role, trials: Trials, movers: Sequence[Head]) -> None:
    """Measure the effect on the name movers; only heads in earlier layers can have one."""
    heads, order = model.shape.heads(), list(model.shape.sites)
    last = max(order.index(mover.site) for mover in movers)
    first, evidence = _measurement(role, trials, 0), role.evidence[0]
    scores, rivals = first.scores.nan_to_num(0.0), first.rivals.nan_to_num(0.0)
    attends = passes_threshold(scores, rivals, evidence.threshold, evidence.margin).tolist()
    candidates = [h for h, yes in zip(heads, attends, strict=True) if yes and order.index(h.site) < last]
    effect = inhibition_effects(model, trials.probes[role.probe.name], movers, candidates)
    trials.scores[role.name] = _score(model, role, (first, effect))


def _name_movers(
    trials: Trials, heads: Sequence[Head], alpha: float, floors: Mapping[str, float] | None = None
) -> list[Head]:
    """The strongest heads that are named name movers."""
    movers = trials.scores.get(MOVER)
    if movers is None:
        return []
    named = trials.named(alpha, floors)[MOVER]
    best = movers.score.masked_fill(~named, -1.0).argsort(descending=True)[:MOST_MOVERS]
    return [heads[index] for index in best.tolist() if bool(named[index])]


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
        task = TaskAblation(model, replace(probe, batches=tuple(batches)))
        found, whole = torch.zeros(probe.n_inputs, len(heads)), _preference(task, movers)
        for head in candidates:
            found[:, heads.index(head)] = whole - _preference(task, movers, head)
        return found

    counterfactuals = [batch.counterfactual for batch in probe.batches if batch.counterfactual is not None]
    return Measurement(effects(probe.batches), effects(counterfactuals), ("nobody named twice",) * len(heads))


def _preference(task: TaskAblation, movers: Sequence[Head], ablated: Head | None = None) -> Float[Tensor, " input"]:
    """The movers' mean attention from the end to the receiver, minus that to both mentions of the giver."""
    found: list[list[Tensor]] = []

    def observer(batch: Batch) -> SiteObserver:
        to, masses = batch.questions["receiver"], list[Tensor]()
        questions = {"receiver": to.wanted, "giver": to.rivals["the giver"], "again": to.rivals["the giver again"]}
        end = (to.wanted.query != -1).int().argmax(1)
        attend = mean_ablation(ablated, end) if ablated else lambda _, call: plain(call)
        found.append(masses)

        def see(site: str, call: Call) -> Tensor:
            of = [mover.head for mover in movers if mover.site == site]
            if of:
                mass = observe(
                    call.q, call.k, call.v, scores=call.scores, questions=questions, statistics=frozenset()
                ).mass
                masses.append((mass["receiver"] - mass["giver"] - mass["again"]).sum(2)[:, of].cpu())
            return attend(site, call)

        return see

    order = list(task.model.shape.sites)
    lowest = min(filter(None, (ablated, *movers)), key=lambda head: order.index(head.site))
    for _ in task.runs(lowest, observer):
        pass
    return torch.cat([torch.cat(masses, dim=1).float().mean(1) for masses in found])
