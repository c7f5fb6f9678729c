"""Roles as the page shows them, and the report that ships with the embedded model.

``python bench/heads.py`` runs the battery; ``python -m headscope.app.pages.roles REPORT.json`` ships
its report, marked with the weights it speaks of. It is shown for these weights and for no others.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch

from headscope.app.pages import schema
from headscope.errors import InputError
from headscope.files import write_atomic
from headscope.heads.roles.battery import BATTERY
from headscope.heads.roles.published_claims import Claim, ClaimCheck, check_claims, claims_about
from headscope.heads.roles.report import Report, Trial
from headscope.models.weight_hash import weight_hash
from headscope.names import ModelShape
from headscope.scope import EMBEDDED, Scope, load

SHIPPED = EMBEDDED / "heads.json"
CARD = EMBEDDED / "MODEL_CARD.md"
WEIGHTS = "weights"  # the recipe's entry with the hash of the weights in float32, whatever precision is loaded


def shipped(scope: Scope, path: Path = SHIPPED) -> Report | None:
    """The report that ships with this model, if one does."""
    if scope.shape.name != EMBEDDED.name or not path.exists():
        return None
    report = Report.from_dict(json.loads(path.read_text(encoding="utf-8")))
    return report if report.recipe.get(WEIGHTS) == weight_hash(scope.model.model, torch.float32) else None


def ship(report: Report, scope: Scope, path: Path = SHIPPED) -> None:
    """Write a report beside the model it was made from."""
    if (report.model, report.n_heads) != (scope.shape.name, scope.shape.n_heads):
        raise InputError(
            f"this report is of {report.model} with {report.n_heads} heads, "
            f"the model here is {scope.shape.name} with {scope.shape.n_heads}; run `python bench/heads.py` first"
        )
    marked = replace(report, recipe={**report.recipe, WEIGHTS: weight_hash(scope.model.model, torch.float32)})
    write_atomic(path, (json.dumps(marked.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())


def roles_card(report: Report, heads: list[str]) -> schema.Roles:
    """The report as the page reads it, every head's scores in the model's order."""
    return schema.Roles(
        state="tested",
        named=len(report.named),
        without=report.n_without,
        resting=report.n_resting,
        findings=[schema.Finding.model_validate(asdict(finding)) for finding in report.findings],
        trials=[_trial(trial, heads) for trial in report.trials],
        recipe=_recipe(report),
    )


def model_title(scope: Scope) -> str:
    """What a person calls this model: the heading of the shipped one's card, another's own name."""
    if scope.shape.name != EMBEDDED.name or not CARD.exists():
        return scope.shape.name
    lines = CARD.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), scope.shape.name)


def featured_card(shape: ModelShape, report: Report | None) -> schema.Featured:
    """Papers' claims about a model of this name; each head beside its own score, once it has been tested."""
    known = {str(head) for head in shape.heads()}
    checks = check_claims(report) if report else []
    held = {(check.claim.source, check.claim.role, check.head): check for check in checks}
    claims = [
        schema.PaperClaim(
            role=claim.role,
            source=claim.source,
            note=claim.note,
            heads=[
                _featured(claim, head, held.get((claim.source, claim.role, head)))
                for head in claim.heads
                if head in known
            ],
        )
        for claim in claims_about(shape.name)
    ]
    return schema.Featured(claims=[claim for claim in claims if claim.heads])


def _featured(claim: Claim, head: str, held: ClaimCheck | None) -> schema.FeaturedHead:
    return schema.FeaturedHead(
        head=head,
        published=(claim.scores or {}).get(head),
        outcome="not tested" if held is None else held.outcome,
        score=None if held is None else held.score,
        rank=None if held is None else held.rank,
        why="nobody has tested these heads yet" if held is None else held.why,
    )


def _trial(trial: Trial, heads: list[str]) -> schema.RoleTrial:
    role = BATTERY.get(trial.role)
    return schema.RoleTrial(
        role=trial.role,
        sentence=trial.sentence,
        paper=trial.paper,
        tested=trial.tested,
        why_not=trial.why_not,
        probe=trial.probe,
        n_inputs=trial.n_inputs,
        named=list(trial.named),
        measure="" if role is None else f"{role.evidence[0].kind}: {role.evidence[0].of}",
        threshold=None if role is None else role.evidence[0].threshold,
        control=trial.control,
        scores=[trial.scores.get(head) for head in heads],
        rivals=[trial.rivals.get(head) for head in heads],
    )


def _recipe(report: Report) -> str:
    """How it was done, in one line; the report itself has the rest."""
    done = report.recipe
    versions = ", ".join(f"{name} {version}" for name, version in done.get("versions", {}).items())
    parts = [
        f"{done.get('inputs')} inputs a probe, seed {done.get('seed')}",
        f"family-wise α {done.get('alpha')} over {done.get('family')} trials",
        str(done.get("test", "")),
        str(done.get("interval", "")),
        f"{done.get('dtype')} on {done.get('device')}",
        versions,
    ]
    return "; ".join(part for part in parts if part)


if __name__ == "__main__":
    with load() as embedded:
        ship(Report.from_dict(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), embedded)
