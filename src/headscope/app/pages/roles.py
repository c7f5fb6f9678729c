"""The roles of a model's heads and the published claims about them; the reports that ship with two models.

``python bench/heads.py --ship`` runs the battery and ships its report, marked with the hash of the weights it was
measured on. It is shown for these weights and for no others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field

from headscope.app.pages.schema import Response
from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.published_claims import ClaimCheck, check_claims, unchecked_claims
from headscope.heads.roles.report import Finding, Report, Trial
from headscope.models.weight_hash import weight_hash
from headscope.names import ModelShape, printable
from headscope.scope import EMBEDDED, Scope

SHIPPED = EMBEDDED / "heads.json"
REPORTS = {EMBEDDED.name: SHIPPED, "SmolLM2-135M-Instruct": Path(__file__).with_name("smollm2_heads.json")}
CARD = EMBEDDED / "MODEL_CARD.md"
WEIGHTS = "weights"  # the recipe's entry with the hash of the weights in float32, whatever precision is loaded


class PaperClaim(Response):
    """What one source says about some heads of this model: its own scores, if it has any, and those found here."""

    role: str
    source: str
    note: str
    scores: Mapping[str, float] | None
    heads: list[ClaimCheck]


@dataclass(frozen=True)
class RoleTrial(Trial):
    """One role on this model, where its paper can be read (if it has one), and what its first evidence has to show."""

    link: str
    measure: str
    threshold: float | None


class Roles(Response):
    """The roles whose tests this model's heads passed, with the evidence; or that no test has run yet."""

    state: Literal["untested", "testing", "tested"]
    named: int = 0
    without: int = 0
    untested: int = Field(default=0, description="heads that no role could be tested on")
    headline: str = Field(default="", description="how many heads pass a test for a role, in words")
    ordinary: list[str] = Field(
        default=[],
        description="each head on ordinary texts, in words: where its attention goes, and the loss without it",
    )
    findings: list[Finding] = []
    trials: list[RoleTrial] = []
    recipe: str = ""


def shipped(scope: Scope, path: Path | None = None) -> Report | None:
    """The report that ships with this model, if its weights have one."""
    path = path or REPORTS.get(scope.shape.name)
    if path is None or not path.exists():
        return None
    report = Report.from_dict(json.loads(path.read_text(encoding="utf-8")))
    return report if report.recipe.get(WEIGHTS) == weight_hash(scope.model.model, torch.float32) else None


def roles_of(report: Report, heads: list[str]) -> Roles:
    """A report for the page; ``heads`` are in the model's order."""
    return Roles(
        state="tested",
        named=len(report.named),
        without=report.n_without,
        untested=report.n_untested,
        headline=report.headline,
        ordinary=[report.on_ordinary_text(head) for head in heads] if set(heads) <= set(report.where) else [],
        findings=list(report.findings),
        trials=[_trial(trial) for trial in report.trials],
        recipe=_recipe(report),
    )


def model_title(scope: Scope) -> str:
    """The model's title: the heading of the embedded model's card, or the name of any other model."""
    if scope.shape.name != EMBEDDED.name or not CARD.exists():
        return printable(scope.shape.name)
    lines = CARD.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), scope.shape.name)


def published_claims(shape: ModelShape, report: Report | None) -> list[PaperClaim]:
    """Published claims about a model of this name; each head with its own score, once it has been tested."""
    known = {str(head) for head in shape.heads()}
    found = check_claims(report) if report else unchecked_claims(shape.name, "")
    claims = [
        PaperClaim(
            role=claim.role,
            source=claim.source,
            note=claim.note,
            scores=claim.scores,
            heads=[each for each in heads if each.head in known],
        )
        for claim, heads in groupby(found, key=attrgetter("claim"))
    ]
    return [claim for claim in claims if claim.heads]


def _trial(trial: Trial) -> RoleTrial:
    role = BATTERY.get(trial.role)
    if role is None:
        return RoleTrial(**vars(trial), link="", measure="", threshold=None)
    evidence, link = role.evidence[0], "" if role.paper is None else role.paper.url
    return RoleTrial(**vars(trial), link=link, measure=f"{evidence.kind}: {evidence.of}", threshold=evidence.threshold)


def _recipe(report: Report) -> str:
    """The settings of the tests, in one line; the report has all of them."""
    done = report.recipe
    versions = ", ".join(f"{name} {version}" for name, version in done.get("versions", {}).items())
    parts = [
        f"{done.get('inputs')} inputs per probe, seed {done.get('seed')}",
        f"family-wise α {done.get('alpha')} over {done.get('family')} trials",
        str(done.get("test", "")),
        str(done.get("interval", "")),
        f"{done.get('dtype')} on {done.get('device')}",
        versions,
    ]
    return "; ".join(part for part in parts if part)
