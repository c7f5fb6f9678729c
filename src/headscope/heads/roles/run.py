"""Run the battery on a model: make probes, test every role on every head, and write a report with its recipe."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.bootstrap import RESAMPLES, bootstrap
from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import ablated_task_scores, why_no_logit_attribution
from headscope.heads.roles.probes.probe import Probe
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import AblationEffect, EvidenceScore, Finding, Report, Trial, p_value, rounded
from headscope.heads.roles.shuffled_weights import shuffled_weights
from headscope.heads.roles.traits import traits
from headscope.heads.roles.trials import RoleScores, Trials, make_probes, run_trials
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Options of the battery; all of them go into the recipe."""

    inputs: int = 32
    seed: int = 0
    alpha: float = 0.01
    roles: tuple[str, ...] | None = None
    own: tuple[Role, ...] = ()
    controls: int = 1
    separators: tuple[int, ...] = ()
    ablate: int = 16
    """On about how many of a probe's inputs heads are mean-ablated; 0 leaves ablation out."""
    most_ablated: int = 12
    """How many heads of each role are ablated, the strongest first."""

    def __post_init__(self) -> None:
        if not 8 <= self.inputs <= 4096:
            raise InputError(f"inputs={self.inputs}: a role is tested on 8 to 4096 inputs per probe")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha={self.alpha}: the family-wise error rate is between 0 and 1, such as .01")
        unknown = [name for name in self.roles or () if name not in BATTERY]
        if unknown:
            raise InputError(f"no role is called {', '.join(unknown)}; there are {', '.join(BATTERY)}")
        names = [*BATTERY, *(role.name for role in self.own)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"a role called {twice!r} is there already; give yours another name")

    def chosen(self) -> tuple[Role, ...]:
        names = BATTERY if self.roles is None else self.roles
        return (*(BATTERY[name] for name in names), *self.own)


def run_battery(model: OpenModel, options: RoleOptions | None = None) -> Report:
    """Test every role on every head, with rivals, p-values, intervals and the effects of ablation."""
    options = options or RoleOptions()
    roles = options.chosen()
    vocabulary = Vocabulary(model, options.seed, options.separators)
    probes = make_probes(vocabulary, roles, options.inputs, options.seed)
    trials = run_trials(model, roles, probes, options.alpha)
    controls = _controls(model, roles, probes, options)
    named = trials.named(options.alpha)
    named = {name: heads & (trials.scores[name].score > controls[name].named) for name, heads in named.items()}
    return Report(
        model=model.shape.name,
        n_heads=model.shape.n_heads,
        findings=_findings(model, trials, named, options),
        trials=tuple(_trial(model, role, trials, named.get(role.name), controls[role.name].best) for role in roles),
        traits=_traits(model, trials),
        recipe=_recipe(model, vocabulary, trials, options),
    )


@dataclass(frozen=True)
class _Control:
    """The best score of a role with shuffled weights, and the best of a head that would have earned it there."""

    best: float | None = None
    named: float = -1.0


def _controls(
    model: OpenModel, roles: tuple[Role, ...], probes: dict[str, Probe | str], options: RoleOptions
) -> dict[str, _Control]:
    found = {role.name: _Control() for role in roles}
    for copy in range(options.controls):
        with shuffled_weights(model, options.seed + copy):
            trials = run_trials(model, roles, probes, options.alpha)
        named = trials.named(options.alpha)
        for name, role in trials.scores.items():
            before, scores = found[name], role.score.nan_to_num(-1.0)
            best = max(-1.0 if before.best is None else before.best, *scores[role.tested].tolist(), -1.0)
            found[name] = _Control(best, max(before.named, *scores[named[name]].tolist(), -1.0))
    return found


def _findings(
    model: OpenModel, trials: Trials, named: Mapping[str, Tensor], options: RoleOptions
) -> tuple[Finding, ...]:
    heads, corrected = model.shape.heads(), trials.corrected()
    ablate = _ablation(model, trials, options)
    found: list[tuple[int, float, Finding]] = []
    for name, role in trials.scores.items():
        measures = _evidence(role, options.seed)
        earned: list[int] = named[name].nonzero().flatten().tolist()
        for rank, index in enumerate(sorted(earned, key=lambda index: -float(role.score[index]))):
            evidence = tuple(scores[index] for scores in measures)
            ablated = ablate(heads[index], role.role.probe.name) if rank < options.most_ablated else None
            finding = Finding(str(heads[index]), name, False, p_value(float(corrected[name][index])), evidence, ablated)
            found.append((index, evidence[0].score - evidence[0].rival, finding))
    strongest: dict[int, str] = {}
    for index, _, finding in sorted(found, key=lambda each: -each[1]):
        strongest.setdefault(index, finding.role)
    ordered = sorted(found, key=lambda each: each[0])
    return tuple(replace(each, strongest=strongest[index] == each.role) for index, _, each in ordered)


def _evidence(role: RoleScores, seed: int) -> list[list[EvidenceScore]]:
    """Every head's score on each measure, with an interval over inputs."""
    found = []
    for evidence, measured, p_values in zip(role.role.evidence, role.measured, role.p_values, strict=True):
        scores, rivals = measured.scores.nan_to_num(0.0), measured.rivals.nan_to_num(0.0)
        low, high = bootstrap(scores, seed)
        columns = zip(
            scores.double().mean(0), low, high, rivals.double().mean(0), measured.rival_names, p_values, strict=True
        )
        found.append(
            [
                EvidenceScore(
                    measure=f"{evidence.kind}: {evidence.of}",
                    score=rounded(float(score)),
                    low=rounded(float(a)),
                    high=rounded(float(b)),
                    rival=rounded(float(rival)),
                    rival_name=name,
                    threshold=evidence.threshold,
                    p=p_value(float(p)),
                )
                for score, a, b, rival, name, p in columns
            ]
        )
    return found


def _ablation(model: OpenModel, trials: Trials, options: RoleOptions) -> Callable[[Head, str], AblationEffect | None]:
    """A function that mean-ablates a head on some of a probe's inputs, each pair of head and probe once."""
    able = bool(options.ablate) and why_no_logit_attribution(model) is None

    @cache
    def ablate(head: Head, name: str) -> AblationEffect | None:
        probe = trials.probes[name]
        if not able or probe.task is None:
            return None
        part = _some_inputs(probe, options.ablate)
        batches = zip(trials.results[name].task_scores, part.batches, strict=True)
        whole = torch.cat([scores[: len(batch)] for scores, batch in batches])
        loss = (whole - ablated_task_scores(model, part, head))[:, None]
        low, high = bootstrap(loss, options.seed)
        return AblationEffect(probe.task, *(rounded(float(x)) for x in (whole.mean(), loss.mean(), low, high)))

    return ablate


def _some_inputs(probe: Probe, count: int) -> Probe:
    """The first inputs of every batch, about ``count`` in all."""
    each = max(1, count // len(probe.batches))
    return replace(probe, batches=tuple(batch.part(0, each) for batch in probe.batches))


def _trial(model: OpenModel, role: Role, trials: Trials, named: Tensor | None, control: float | None) -> Trial:
    about = (role.sentence, "" if role.paper is None else str(role.paper))
    tested = trials.scores.get(role.name)
    if tested is None or named is None:
        why = trials.untested[role.name]
        return Trial(role.name, False, why, *about, "", 0, 0, 0, (), {}, {}, None, "", None, {})
    probe, heads = trials.probes[role.probe.name], [str(head) for head in model.shape.heads()]
    task = trials.results[role.probe.name].task_scores if probe.task else []

    def column(values: Tensor) -> dict[str, float | None]:
        means = zip(heads, values.double().mean(0).tolist(), tested.tested.tolist(), strict=True)
        return {head: rounded(mean) if measured else None for head, mean, measured in means}

    return Trial(
        role.name, True, "", *about, probe.description, probe.n_inputs, sum(b.ids.numel() for b in probe.batches),
        int(tested.tested.sum()), tuple(heads[index] for index in named.nonzero().flatten().tolist()),
        column(tested.measured[0].scores), column(tested.measured[0].rivals),
        None if control is None else rounded(control), probe.task or "",
        rounded(float(torch.cat(task).mean())) if task else None,
        {e.of: rounded(probe.baselines[e.of]) for e in role.evidence if e.of in probe.baselines},
    )  # fmt: skip


def _traits(model: OpenModel, trials: Trials) -> dict[str, dict[str, float]]:
    """Traits on plain sentences where the model reads text, else on the first probe there is."""
    probe = trials.probes.get("text") or next(iter(trials.probes.values()), None)
    return {} if probe is None else traits(model, probe)


def _recipe(model: OpenModel, vocabulary: Vocabulary, trials: Trials, options: RoleOptions) -> dict[str, Any]:
    weight = next(model.model.parameters())
    return {
        "weights": weight_hash(model.model),
        "inputs": options.inputs,
        "seed": options.seed,
        "alpha": options.alpha,
        "family": trials.family,
        "test": "Wilcoxon's signed ranks, one-sided, exact, score against the head's own strongest rival; Holm",
        "interval": f"95 % bootstrap over inputs, {RESAMPLES} draws",
        "controls": options.controls,
        "ablation": (
            f"the head's mean over the batch in its place, on about {options.ablate} inputs, "
            f"for at most {options.most_ablated} heads per role"
        ),
        "start_and_end": vocabulary.added_tokens,
        "separators": list(options.separators),
        "dtype": str(weight.dtype).removeprefix("torch."),
        "device": weight.device.type,
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in ("headscope", "torch", "transformers")},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
