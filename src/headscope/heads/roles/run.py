"""Run the battery on a model: make probes, test every role on every head, and write a report with its recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from headscope.attention.progress import report_progress, uninterrupted
from headscope.checked import checked
from headscope.errors import InputError
from headscope.heads.bootstrap import RESAMPLES, bootstrap
from headscope.heads.look.importance import Effect, importance
from headscope.heads.look.look import Look
from headscope.heads.questions.where import ClassShare, HeadWhere, where
from headscope.heads.roles.battery import BATTERY, Role
from headscope.heads.roles.measures import why_no_logit_attribution
from headscope.heads.roles.probes.probe import Probe
from headscope.heads.roles.probes.vocabulary import Vocabulary
from headscope.heads.roles.report import AblationEffect, EvidenceScore, Finding, Report, Trial, p_value, rounded
from headscope.heads.roles.task import TaskAblation
from headscope.heads.roles.traits import traits
from headscope.heads.roles.trials import MOVER, STOPPED, RoleScores, Trials, make_probes, measure_roles, score_effects
from headscope.models.modes import weights_put_back
from headscope.models.recording import OpenModel
from headscope.models.weight_hash import weight_hash
from headscope.names import Head

T = TypeVar("T")
ORDINARY = Path(__file__).with_name("ordinary.txt")


@checked
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
    importance: bool = False
    """Whether to measure the loss on ordinary texts without each head, which takes a pass for every head."""

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
    """Test every role on every head, with rivals, p-values, intervals and the effects of ablation.

    Ctrl-C ends it early: the report then has the roles tested so far, and its recipe says where it was ``stopped``.
    """
    options = options or RoleOptions()
    roles = options.chosen()
    vocabulary = Vocabulary(model, options.seed, options.separators)
    costs = _importance(model, vocabulary) if options.importance else {}
    probes = make_probes(vocabulary, roles, options.inputs, options.seed)
    work = Work(sum(_n_tokens(probe) for probe in probes.values() if isinstance(probe, Probe)), options.controls)
    trials = measure_roles(model, roles, probes, options.alpha, work.advance)
    if trials.stopped:
        work.stopped = f"at the probe {trials.stopped}, before the control with shuffled weights"
    if work.stopped and not trials.scores:
        raise KeyboardInterrupt
    controls: dict[str, _Control] = work.unless_stopped(
        "in the control with shuffled weights", lambda: _controls(model, trials, probes, options, work), {}
    )
    floors = {name: control.named for name, control in controls.items()}
    work.unless_stopped("at S-inhibition", lambda: score_effects(model, trials, options.alpha, floors), None)
    trials.untested |= dict.fromkeys(trials.waiting, STOPPED)
    named = trials.named(options.alpha, floors)
    findings = _findings(model, trials, named, options, work)
    best = {name: control.best for name, control in controls.items()}
    return Report(
        model=model.shape.name,
        n_heads=model.shape.n_heads,
        findings=findings,
        trials=tuple(_trial(model, role, trials, named.get(role.name), best.get(role.name)) for role in roles),
        traits=work.unless_stopped("at the traits", lambda: _traits(model, trials), {}),
        recipe=_recipe(model, vocabulary, trials, options) | ({"stopped": work.stopped} if work.stopped else {}),
        where=work.unless_stopped("at ordinary texts", lambda: ordinary_where(model, vocabulary), {})
        if options.roles is None and not options.own
        else {},
        importance=costs,
    )


def _ordinary_texts(vocabulary: Vocabulary) -> list[list[int]]:
    """Tokenize the ordinary texts that come with headscope: those that the model can read."""
    found: list[list[int]] = []
    for text in ORDINARY.read_text(encoding="utf-8").split("\n----\n") if vocabulary.reads_text else ():
        with suppress(InputError):  # longer than its context
            found.append(list(vocabulary.tokenize(text).ids[: vocabulary.context]))
    return found


def _importance(model: OpenModel, vocabulary: Vocabulary) -> dict[str, Effect]:
    measured = {str(each.head): vars(each.loss).values() for each in importance(model, _ordinary_texts(vocabulary))}
    return {head: Effect(*(rounded(number or 0.0) for number in numbers)) for head, numbers in measured.items()}


def ordinary_where(model: OpenModel, vocabulary: Vocabulary) -> dict[str, HeadWhere]:
    """Measure where each head's attention goes on ordinary texts; empty if a model reads none."""
    looks = (Look(model, model.prepare(ids)).read() for ids in _ordinary_texts(vocabulary))
    try:
        found = where(looks)
    except InputError:  # no site reads its own text
        return {}
    return {
        str(head): replace(each, kind="ordinary texts", shares={name: _short(of) for name, of in each.shares.items()})
        for head, each in found.heads.items()
    }


def _short(share: ClassShare) -> ClassShare:
    numbers: dict[str, Any] = {
        name: value if value is None else rounded(value, 4) for name, value in vars(share).items()
    }
    return ClassShare(**numbers)


class Work:
    """The tokens that the battery still has to process, for a progress bar, and whether it was stopped."""

    def __init__(self, tokens: int, controls: int) -> None:
        self.task, self.done, self.total, self.stopped = "probes", 0, tokens * (2 + controls), ""

    def advance(self, tokens: int) -> None:
        self.done += tokens
        report_progress(self.task, self.done, max(self.done, self.total))

    def begin(self, task: str, tokens: int) -> None:
        """Name the next task; ``tokens`` are all that is left to do."""
        self.task, self.total = task, self.done + tokens

    def unless_stopped(self, what: str, run: Callable[[], T], otherwise: T) -> T:
        """Run a part of the work; ``otherwise`` if Ctrl-C stops it, or stopped an earlier one."""
        if self.stopped:
            return otherwise
        try:
            return run()
        except KeyboardInterrupt:
            self.stopped = what
            return otherwise


def _n_tokens(probe: Probe) -> int:
    return sum(batch.ids.numel() for batch in probe.batches)


@dataclass(frozen=True)
class _Control:
    """The best score of a role with shuffled weights, and the best of a head that would have earned it there."""

    best: float = -1.0
    named: float = -1.0


def _controls(
    model: OpenModel, trials: Trials, probes: dict[str, Probe | str], options: RoleOptions, work: Work
) -> dict[str, _Control]:
    """Test the roles that some head would earn once more, with shuffled weights."""
    would_earn = {name for name, heads in trials.named(options.alpha).items() if heads.any()}
    would_earn |= trials.waiting.keys() if MOVER in would_earn else set()
    roles = [role for role in options.chosen() if role.name in would_earn]
    each = sum(_n_tokens(trials.probes[name]) for name in {role.probe.name for role in roles})
    work.begin("control with shuffled weights", 2 * each * options.controls)
    found: dict[str, _Control] = {}
    for copy in range(options.controls if roles else 0):
        with shuffled_weights(model, options.seed + copy):
            shuffled = measure_roles(model, roles, probes, options.alpha, work.advance)
            if shuffled.stopped:
                raise KeyboardInterrupt
            score_effects(model, shuffled, options.alpha)
        named = shuffled.named(options.alpha)
        for name, role in shuffled.scores.items():
            before, scores = found.get(name, _Control()), role.score.nan_to_num(-1.0)
            best = max(before.best, *scores[role.tested].tolist(), -1.0)
            found[name] = _Control(best, max(before.named, *scores[named[name]].tolist(), -1.0))
    return found


def _findings(
    model: OpenModel, trials: Trials, named: Mapping[str, Tensor], options: RoleOptions, work: Work
) -> tuple[Finding, ...]:
    heads, corrected = model.shape.heads(), trials.corrected()
    ablate = _ablation(model, trials, named, options, work)
    found: list[tuple[int, float, Finding]] = []
    for name, role in trials.scores.items():
        measures = _evidence(role, options.seed)
        earned: list[int] = named[name].nonzero().flatten().tolist()
        for rank, index in enumerate(sorted(earned, key=lambda index: -float(role.score[index]))):
            evidence = tuple(scores[index] for scores in measures)
            ablated = None
            if rank < options.most_ablated:
                ablated = work.unless_stopped(
                    "in the ablations", partial(ablate, heads[index], role.role.probe.name), None
                )
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


def _ablation(
    model: OpenModel, trials: Trials, named: Mapping[str, Tensor], options: RoleOptions, work: Work
) -> Callable[[Head, str], AblationEffect | None]:
    """A function that mean-ablates a head on some of a probe's inputs, each pair of head and probe once."""
    able = bool(options.ablate) and why_no_logit_attribution(model) is None
    pairs = {
        (index, trials.scores[name].role.probe.name)
        for name, heads in named.items()
        for index in heads.nonzero().flatten().tolist()[: options.most_ablated]
    }
    parts = {name: _some_inputs(probe, options.ablate) for name, probe in trials.probes.items() if probe.task}
    work.begin("ablations", sum(_n_tokens(parts[name]) for _, name in pairs if name in parts) if able else 0)

    @cache
    def task(name: str) -> TaskAblation:
        return TaskAblation(model, parts[name])

    @cache
    def ablate(head: Head, name: str) -> AblationEffect | None:
        probe = trials.probes[name]
        if not able or probe.task is None:
            return None
        batches = zip(trials.results[name].task_scores, parts[name].batches, strict=True)
        whole = torch.cat([scores[: len(batch)] for scores, batch in batches])
        loss = (whole - task(name).scores(head))[:, None]
        work.advance(_n_tokens(parts[name]))
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
        "strata": "between words, in every template alone: more attention to the target than to the distractor",
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
        "versions": {name: version(name) for name in ("headscope", "torch", "transformers")},
    }


@contextmanager
def shuffled_weights(model: OpenModel, seed: int) -> Iterator[None]:
    """Shuffle the entries of every matrix inside the block and restore them bit by bit afterwards.

    Norms and biases stay. The model is changed in place, so nothing else may use it meanwhile.
    """
    generator = torch.Generator().manual_seed(seed)
    kept = [(weight, weight.detach().cpu().clone()) for weight in model.model.parameters() if weight.ndim >= 2]
    with weights_put_back(model.model), uninterrupted():
        try:
            with torch.no_grad():
                for weight, own in kept:
                    order = torch.randperm(weight.numel(), generator=generator)
                    weight.copy_(own.flatten()[order].view(weight.shape))
            yield
        finally:
            with torch.no_grad():
                for weight, own in kept:
                    weight.copy_(own)
