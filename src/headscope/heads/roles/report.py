"""What the battery found: a plain value, equal when run twice, that can be written down and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from headscope.errors import InputError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Piece:
    """One piece of evidence for one head: its score, the rival that came closest, and the interval."""

    measure: str
    score: float
    low: float
    high: float
    rival: float
    rival_name: str
    threshold: float
    p: float


@dataclass(frozen=True)
class Ablated:
    """What the probe's own task loses when the head is switched off (its mean put in its place).

    ``whole`` is how well the model does with all its heads, more is better; ``loss`` is how much of it goes.
    """

    task: str
    whole: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """A head that earned a role. ``p`` is corrected for every head and role that was tried."""

    head: str
    role: str
    strongest: bool
    p: float
    evidence: tuple[Piece, ...]
    ablated: Ablated | None

    @property
    def score(self) -> float:
        return self.evidence[0].score


@dataclass(frozen=True)
class Trial:
    """One role on this model: tested or not, on what, and every head's score (None: not asked)."""

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


@dataclass(frozen=True)
class Report:
    """Every role's trial, every head's names and traits, and how it was all done."""

    model: str
    n_heads: int
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    traits: Mapping[str, Mapping[str, float]]
    recipe: Mapping[str, Any]
    schema_version: int = SCHEMA_VERSION

    @property
    def named(self) -> list[str]:
        """Heads with at least one role, in the model's order."""
        return list(dict.fromkeys(finding.head for finding in sorted(self.findings, key=lambda f: _order(f.head))))

    @property
    def n_without(self) -> int:
        """How many heads have no role."""
        return self.n_heads - len(self.named)

    @property
    def n_resting(self) -> int:
        """How many heads have no role but to rest on the first token."""
        roles: dict[str, set[str]] = {}
        for finding in self.findings:
            roles.setdefault(finding.head, set()).add(finding.role)
        return sum(each == {"first token"} for each in roles.values())

    @property
    def share_without(self) -> float:
        return self.n_without / self.n_heads if self.n_heads else 0.0

    def of(self, head: str) -> list[Finding]:
        """A head's roles, the strongest first."""
        return sorted((f for f in self.findings if f.head == head), key=lambda f: not f.strongest)

    def with_role(self, role: str) -> list[Finding]:
        """The heads that earned a role, highest score first."""
        return sorted((f for f in self.findings if f.role == role), key=lambda f: -f.score)

    def trial(self, role: str) -> Trial:
        for trial in self.trials:
            if trial.role == role:
                return trial
        raise InputError(f"no role {role!r} in this report; there are {', '.join(t.role for t in self.trials)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts and numbers, for JSON."""
        return {
            **asdict(self),
            "summary": {
                "named": self.named,
                "without_a_role": self.n_without,
                "only_rest_on_the_first_token": self.n_resting,
                "share_without_a_role": rounded(self.share_without),
            },
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Report:
        """A report that ``to_dict`` wrote."""
        version = given.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"this report has schema_version {version!r}; this program reads {SCHEMA_VERSION}")
        try:
            return cls._read(given)
        except (KeyError, TypeError) as error:
            raise InputError(
                f"this report is not whole ({error!r}); make it again with headscope heads --json"
            ) from error

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> Report:
        findings = tuple(
            Finding(
                **{
                    **finding,
                    "evidence": tuple(Piece(**piece) for piece in finding["evidence"]),
                    "ablated": None if finding["ablated"] is None else Ablated(**finding["ablated"]),
                }
            )
            for finding in given["findings"]
        )
        trials = tuple(Trial(**{**trial, "named": tuple(trial["named"])}) for trial in given["trials"])
        kept = {f.name: given[f.name] for f in fields(cls)}
        return cls(**{**kept, "findings": findings, "trials": trials})

    def __str__(self) -> str:
        lines = [
            f"{self.model}: {len(self.named)} of {self.n_heads} heads have a role, {self.n_without} have none; "
            f"{self.n_resting} do nothing but rest on the first token"
        ]
        for trial in self.trials:
            found = ", ".join(f"{f.head} {f.score:.2f}" for f in self.with_role(trial.role))
            offset = "".join(f" (best fixed offset {right:.2f})" for right in trial.baselines.values())
            told = f"{found or 'no head'}{offset}" if trial.tested else f"not tested: {trial.why_not}"
            lines.append(f"  {trial.role}: {told}")
        return "\n".join(lines)


def rounded(value: float, digits: int = 6) -> float:
    """Six decimals are kept: beyond them, two runs on different threads may differ."""
    return 0.0 if math.isnan(value) else round(float(value), digits)


def p_value(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")


def _order(head: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in head.split(".")]
