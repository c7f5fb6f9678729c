"""heads(model): the whole battery on one model, from probes to a report that another person can get again."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import task_without, why_no_logits
from headscope.heads.roles.probes.probe import Probe
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import Ablated, Finding, Piece, Report, Trial, p_value, rounded
from headscope.heads.roles.shuffled_weights import randomised
from headscope.heads.roles.significance import RESAMPLES, bootstrap
from headscope.heads.roles.traits import traits
from headscope.heads.roles.trials import Trials, Tried, make_probes, run_trials
from headscope.models.protocol import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the battery is run. All of it goes into the recipe."""

    inputs: int = 32
    seed: int = 0
    alpha: float = 0.01
    roles: tuple[str, ...] | None = None
    own: tuple[Role, ...] = ()
    controls: int = 1
    separators: tuple[int, ...] = ()
    ablate: int = 16
    """On how many of a probe's inputs heads are switched off; 0 leaves that out."""
    most_ablated: int = 12
    """How many heads of each role are switched off, the strongest first."""

    def __post_init__(self) -> None:
        if not 8 <= self.inputs <= 4096:
            raise InputError(f"inputs={self.inputs}: a role is tested on 8 to 4096 inputs a probe")
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha={self.alpha}: the family-wise error is a chance between 0 and 1, such as .01")
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


def heads(model: OpenModel, options: Options | None = None) -> Report:
    """Every role tried on every head, with nulls, intervals, effects of ablation, and the recipe."""
    options = options or Options()
    roles = options.chosen()
    vocabulary = Vocabulary(model, options.seed, options.separators)
    probes = make_probes(vocabulary, roles, options.inputs, options.seed)
    trials = run_trials(model, roles, probes, options.alpha)
    named = trials.named(options.alpha)
    controls = _controls(model, roles, probes, options)
    for name, tried in trials.tried.items():
        named[name] = named[name] & (tried.score > controls[name].named)
    findings = _findings(model, trials, named, options)
    return Report(
        model=model.shape.name,
        n_heads=model.shape.n_heads,
        findings=findings,
        trials=tuple(_trial(model, role, trials, named, controls) for role in roles),
        traits=_traits(model, trials),
        recipe=_recipe(model, vocabulary, trials, options),
    )


@dataclass(frozen=True)
class _Control:
    """The randomised copies' best score for a role, and the best of a head that they would have named."""

    best: float | None = None
    named: float = -1.0


def _controls(
    model: OpenModel, roles: tuple[Role, ...], probes: dict[str, Probe | str], options: Options
) -> dict[str, _Control]:
    found = {role.name: _Control() for role in roles}
    for copy in range(options.controls):
        with randomised(model, options.seed + copy):
            trials = run_trials(model, roles, probes, options.alpha)
        named = trials.named(options.alpha)
        for name, tried in trials.tried.items():
            before, score = found[name], tried.score.nan_to_num(-1.0)
            best = float(score[tried.asked].max()) if bool(tried.asked.any()) else -1.0
            mistaken = float(score[named[name]].max()) if bool(named[name].any()) else -1.0
            best = best if before.best is None else max(best, before.best)
            found[name] = _Control(best, max(mistaken, before.named))
    return found


def _findings(model: OpenModel, trials: Trials, named: Mapping[str, Tensor], options: Options) -> tuple[Finding, ...]:
    every, corrected = model.shape.heads(), trials.corrected()
    ablation = _Ablation(model, trials, options)
    found: list[tuple[float, Finding]] = []
    for name, tried in trials.tried.items():
        pieces = _pieces(tried, options.seed)
        for place, index in enumerate(_by_score(tried, named[name])):
            evidence = tuple(piece[index] for piece in pieces)
            p = p_value(float(corrected[name][index]))
            ablated = ablation.of(every[index], tried.role.probe.name) if place < options.most_ablated else None
            lead = evidence[0].score - evidence[0].rival
            found.append((lead, Finding(str(every[index]), name, False, p, evidence, ablated)))
    strongest: dict[str, tuple[float, str]] = {}
    for lead, finding in found:
        if lead > strongest.get(finding.head, (-1.0, ""))[0]:
            strongest[finding.head] = (lead, finding.role)
    order = {str(head): index for index, head in enumerate(every)}
    marked = [replace(finding, strongest=strongest[finding.head][1] == finding.role) for _, finding in found]
    return tuple(sorted(marked, key=lambda finding: order[finding.head]))


def _by_score(tried: Tried, named: Tensor) -> list[int]:
    """The named heads, highest score first."""
    found: list[int] = named.nonzero().flatten().tolist()
    return sorted(found, key=lambda index: -float(tried.score[index]))


def _pieces(tried: Tried, seed: int) -> list[list[Piece]]:
    """Every head's evidence, with intervals over inputs."""
    found = []
    for evidence, measured, p in zip(tried.role.evidence, tried.measured, tried.pieces, strict=True):
        scores, rivals = measured.scores.nan_to_num(0.0), measured.rivals.nan_to_num(0.0)
        low, high = bootstrap(scores, seed)
        columns = zip(scores.double().mean(0), low, high, rivals.double().mean(0), measured.rival_names, p, strict=True)
        found.append(
            [
                Piece(
                    measure=f"{evidence.kind}: {evidence.of}",
                    score=rounded(float(score)),
                    low=rounded(float(a)),
                    high=rounded(float(b)),
                    rival=rounded(float(rival)),
                    rival_name=name,
                    threshold=evidence.threshold,
                    p=p_value(float(chance)),
                )
                for score, a, b, rival, name, chance in columns
            ]
        )
    return found


class _Ablation:
    """Each head switched off once on each probe, whatever it was named for there."""

    def __init__(self, model: OpenModel, trials: Trials, options: Options) -> None:
        self.model, self.trials, self.options = model, trials, options
        self.able = bool(options.ablate) and why_no_logits(model) is None
        self.done: dict[tuple[Head, str], Ablated | None] = {}
        self.parts: dict[str, Probe] = {}

    def of(self, head: Head, name: str) -> Ablated | None:
        if (head, name) not in self.done:
            self.done[head, name] = self._measure(head, name)
        return self.done[head, name]

    def _measure(self, head: Head, name: str) -> Ablated | None:
        probe = self.trials.probes[name]
        if not self.able or probe.task is None:
            return None
        part = self.parts.setdefault(name, _some(probe, self.options.ablate))
        whole = torch.cat(self.trials.collected[name].task)[_rows(probe, part)]
        loss = (whole - task_without(self.model, part, head))[:, None]
        low, high = bootstrap(loss, self.options.seed)
        numbers = (float(whole.mean()), float(loss.mean()), float(low), float(high))
        return Ablated(probe.task, *(rounded(number) for number in numbers))


def _some(probe: Probe, count: int) -> Probe:
    """A few inputs of every batch, about ``count`` in all."""
    each = max(1, count // len(probe.batches))
    return replace(probe, batches=tuple(batch.part(0, each) for batch in probe.batches))


def _rows(probe: Probe, part: Probe) -> Tensor:
    rows, at = [], 0
    for batch, some in zip(probe.batches, part.batches, strict=True):
        rows.append(torch.arange(at, at + len(some)))
        at += len(batch)
    return torch.cat(rows)


def _trial(
    model: OpenModel, role: Role, trials: Trials, named: Mapping[str, Tensor], controls: Mapping[str, _Control]
) -> Trial:
    about = (role.sentence, "" if role.paper is None else str(role.paper))
    tried = trials.tried.get(role.name)
    if tried is None:
        why = trials.untested[role.name]
        return Trial(role.name, False, why, *about, "", 0, 0, 0, (), {}, {}, None, "", None, {})
    probe, every = trials.probes[role.probe.name], [str(head) for head in model.shape.heads()]
    score, rival = (getattr(tried.measured[0], side).double().mean(0) for side in ("scores", "rivals"))

    def column(values: Tensor) -> dict[str, float | None]:
        return {
            head: rounded(value) if asked else None
            for head, value, asked in zip(every, values.tolist(), tried.asked.tolist(), strict=True)
        }

    best = controls[role.name].best
    return Trial(
        role.name, True, "", *about, probe.made, probe.n_inputs, sum(batch.ids.numel() for batch in probe.batches),
        int(tried.asked.sum()), tuple(every[i] for i in named[role.name].nonzero().flatten().tolist()),
        column(score), column(rival), None if best is None else rounded(best), probe.task or "",
        _task_score(trials, role),
        {e.of: rounded(probe.baselines[e.of]) for e in role.evidence if e.of in probe.baselines},
    )  # fmt: skip


def _task_score(trials: Trials, role: Role) -> float | None:
    """How well the whole model does the probe's task, on average."""
    graded = trials.collected[role.probe.name].task
    return rounded(float(torch.cat(graded).mean())) if graded and trials.probes[role.probe.name].task else None


def _traits(model: OpenModel, trials: Trials) -> dict[str, dict[str, float]]:
    """On plain sentences where the model reads text, else on the first probe there is."""
    probe = trials.probes.get("text") or next(iter(trials.probes.values()), None)
    return {} if probe is None else traits(model, probe)


def _recipe(model: OpenModel, vocabulary: Vocabulary, trials: Trials, options: Options) -> dict[str, Any]:
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
            f"for at most {options.most_ablated} heads a role"
        ),
        "start_and_end": vocabulary.rule,
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
