"""The battery's report: plain dataclasses, equal when run twice, written to and read from JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headscope.errors import InputError
from headscope.heads.head_table import HeadTable, of_head
from headscope.heads.look.importance import Effect
from headscope.heads.questions.where import FIRST, MENTIONED, HeadWhere
from headscope.heads.sentences import SENTENCES, percent
from headscope.names import Head, HeadName

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class EvidenceScore:
    """One head's score on one measure of a role, with its interval, its strongest rival and its p-value."""

    measure: str
    score: float
    low: float
    high: float
    rival: float
    rival_name: str
    threshold: float
    p: float


@dataclass(frozen=True)
class AblationEffect:
    """What the probe's task loses when the head is mean-ablated.

    ``whole`` is the score with all heads, more is better; ``loss`` is how much of it is lost.
    """

    task: str
    whole: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """A head that passed a role's test. ``p`` is corrected for every head and role that was tested."""

    head: str
    role: str
    strongest: bool
    p: float
    evidence: tuple[EvidenceScore, ...]
    ablated: AblationEffect | None

    @property
    def score(self) -> float:
        return self.evidence[0].score


@dataclass(frozen=True)
class Trial:
    """One role on this model: whether it was tested, on which probe, and every head's score (None: not tested)."""

    role: str
    tested: bool
    why_not: str
    sentence: str
    paper: str
    probe: str
    n_inputs: int
    n_tokens: int
    n_heads: int
    named: tuple[str, ...]
    scores: Mapping[str, float | None]
    rivals: Mapping[str, float | None]
    control: float | None
    task: str
    task_score: float | None
    baselines: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Report(HeadTable):
    """Every role's trial, the heads that passed one, every head's traits, and the recipe to reproduce them."""

    _column, _by = "score", "role"
    model: str
    n_heads: int
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    traits: Mapping[str, Mapping[str, float]]
    recipe: Mapping[str, Any]
    where: Mapping[str, HeadWhere] = field(default_factory=dict)
    """Where every head's attention goes on ordinary texts; empty for a model that reads none."""
    importance: Mapping[str, Effect] = field(default_factory=dict)
    """How much the loss on these texts rises without each head, if that was asked for."""
    schema_version: int = SCHEMA_VERSION

    @property
    def named(self) -> list[str]:
        """Heads with at least one role, in the model's order."""
        return list(dict.fromkeys(finding.head for finding in sorted(self.findings, key=lambda f: _order(f.head))))

    @property
    def n_untested(self) -> int:
        """How many heads no role could be tested on."""
        tested = {head for trial in self.trials for head, score in trial.scores.items() if score is not None}
        return self.n_heads - len(tested)

    @property
    def n_without(self) -> int:
        """How many heads were tested, and have no role."""
        return self.n_heads - self.n_untested - len(self.named)

    @property
    def n_resting(self) -> int:
        """How many heads have only the role of attending to the first token."""
        roles: dict[str, set[str]] = {}
        for finding in self.findings:
            roles.setdefault(finding.head, set()).add(finding.role)
        return sum(each == {"first token"} for each in roles.values())

    def of(self, head: str) -> list[Finding]:
        """A head's roles, the strongest first."""
        return sorted((f for f in self.findings if f.head == head), key=lambda f: not f.strongest)

    def with_role(self, role: str) -> list[Finding]:
        """Return the heads that passed a role's test, highest score first."""
        return sorted((f for f in self.findings if f.role == role), key=lambda f: -f.score)

    def trial(self, role: str) -> Trial:
        for trial in self.trials:
            if trial.role == role:
                return trial
        raise InputError(f"no role {role!r} in this report; there are {', '.join(t.role for t in self.trials)}")

    def _rows(self) -> list[dict[str, Any]]:
        """A row per head and tested role: its score, and whether it passes the test."""
        return [
            {**of_head(Head.parse(head)), "role": trial.role, "score": score, "passes": head in trial.named}
            for trial in self.trials
            for head, score in trial.scores.items()
        ]

    def _title(self) -> str:
        return f"{self.model}: scores"

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers, for JSON."""
        return {
            **asdict(self),
            "summary": {
                "named": self.named,
                "without_a_role": self.n_without,
                "not_tested": self.n_untested,
                "only_first_token": self.n_resting,
            },
        }

    def to_short(self) -> dict[str, Any]:
        """The heads that pass each role with their evidence, for a program."""
        from headscope.heads.short import short_report

        return short_report(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Report:
        """Read a report that ``to_dict`` wrote."""
        version = given.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"this report has schema_version {version!r}; this program reads {SCHEMA_VERSION}")
        try:
            return TypeAdapter(cls).validate_python(given)
        except ValidationError as error:
            first = error.errors()[0]
            where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise InputError(
                f"this report is incomplete ({where}); make it again with headscope heads --json"
            ) from error

    def sentence(self, head: HeadName) -> str:
        """What a head was found to do in the tests, and where its attention goes on ordinary text."""
        name = str(Head.parse(head))
        tried = [trial.role for trial in self.trials if trial.scores.get(name) is not None]
        if not tried:
            said = ["Not tested for a role."]
        elif not self.of(name):
            said = ["No role. " + SENTENCES["roles"]["none"].format(tried=len(tried))]
        else:
            said = [self._found(finding) for finding in self.of(name)]
        return " ".join([*said, self.on_ordinary_text(name)]).rstrip()

    def on_ordinary_text(self, head: str) -> str:
        """Where a head's attention goes on ordinary text, and what the loss there is without it, as far as measured."""
        where, cost = self.where.get(head), self.importance.get(head)
        return " ".join(([] if where is None else [str(where)]) + ([] if cost is None else [_cost(cost)]))

    def _found(self, finding: Finding) -> str:
        trial, where = self.trial(finding.role), self.where.get(finding.head)
        role = f"{finding.role[0].upper()}{finding.role[1:]}"
        attends = finding.evidence[0].measure.startswith("attention")
        share = f"On average {percent(finding.score)} of its attention goes there"
        score = share if attends else f"It scores {finding.score:.2f}"
        said = f"{role}: {_inside(trial.sentence)}. {score} ({trial.probe})."
        if finding.role == "first token" and where is not None and where.shares[FIRST].share < MENTIONED:
            return f"{said} On ordinary text the first token gets {percent(where.shares[FIRST].share)}."
        return said

    def __str__(self) -> str:
        lines = [f"In {self.model}, {self.headline}."]
        if "stopped" in self.recipe:
            lines.append(f"Stopped {self.recipe['stopped']}: what follows is all that was done.")
        if self.findings:
            lines.append("The heads that pass each test, with their scores:")
        for trial in self.trials:
            found = ", ".join(f"{f.head} {f.score:.2f}{self._ordinary(f)}" for f in self.with_role(trial.role))
            always = "always looking the same distance away would score"
            offset = "".join(f" ({always} {right:.2f})" for right in trial.baselines.values())
            outcome = f"{found or 'no head'}{offset}" if trial.tested else f"not tested: {trial.why_not}"
            ordinary = "; in brackets: on ordinary text" if "(" in found else ""
            lines.append(f"  {trial.role} ({_inside(trial.sentence)}{ordinary}): {outcome}")
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """How many heads pass a test for a role, and how many of them only that of attending to the first token."""
        tested = self.n_heads - self.n_untested
        if not tested:
            return f"no role could be tested on its {self.n_heads} heads"
        untested = f"; {self.n_untested} were not tested" if self.n_untested else ""
        if not self.named:
            return f"none of {tested} heads passes a test for a role{untested}"
        return (
            f"{len(self.named)} of {tested} heads pass a test for a role: {len(self.named) - self.n_resting} for "
            f"something specific, {self.n_resting} only for attending to the first token of random words; "
            f"{self.n_without} pass none{untested}"
        )

    def _ordinary(self, finding: Finding) -> str:
        """Of a head that attends to the first token: what that gets on ordinary text."""
        where = self.where.get(finding.head) if finding.role == "first token" else None
        return "" if where is None else f" ({where.shares[FIRST].share:.2f})"


def _inside(sentence: str) -> str:
    """A role's sentence as a part of another."""
    return f"{sentence[:1].lower()}{sentence[1:]}".removesuffix(".")


def _cost(effect: Effect) -> str:
    """What zero ablation does to the loss."""
    low, high = effect.low or 0.0, effect.high or 0.0
    without = "With its output set to zero the loss on these texts"
    if low <= 0 <= high:
        return f"{without} shows no clear change: the 95% interval includes 0."
    least, most = sorted((abs(low), abs(high)))
    way = "falls" if effect.mean < 0 else "rises"
    return f"{without} {way} by {abs(effect.mean):.3f} nats per token (95% interval {least:.3f}–{most:.3f})."


def rounded(value: float, digits: int = 6) -> float:
    """Round to six decimals: beyond them, runs with different numbers of threads may differ."""
    return 0.0 if math.isnan(value) else round(float(value), digits)


def p_value(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.3g}")


def _order(head: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in head.split(".")]
