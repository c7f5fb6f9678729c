"""Run, read and print role tests for ``headscope heads``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headscope.cli.options import read_texts, show_json

if TYPE_CHECKING:
    from headscope.heads.roles.published_claims import ClaimCheck
    from headscope.heads.roles.report import Report

Own = tuple[list[str], list[str], Path | None]
"""Classes of tokens, the files they are measured on, and a treebank."""


def test_heads(model: str | None, inputs: int, seed: int, roles: tuple[str, ...], own: Own) -> Report:
    """Run the battery, or the chosen roles and the user's own, on a model."""
    from headscope.errors import InputError
    from headscope.heads.questions.label_rules import read_class
    from headscope.heads.roles.custom_roles import own_role
    from headscope.heads.roles.run import RoleOptions
    from headscope.heads.roles.treebank import treebank_roles
    from headscope.scope import load

    classes, files, arcs = own
    if files and not classes:
        raise InputError("--texts holds the texts for --class; give a class too, as in --class digits=[0-9]")
    rules = [read_class(entry) for entry in classes]
    texts = read_texts(files, 64, 300) if files else None
    with load(model) as scope:
        asked = [own_role(rule, texts) for rule in rules]
        asked += [] if arcs is None else treebank_roles(scope.model, arcs)
        chosen = roles or (() if asked else None)
        return scope.heads(RoleOptions(inputs=inputs, roles=chosen, own=tuple(asked), seed=seed))


def read_report(path: Path) -> Report:
    """Read a report that --json wrote."""
    import json

    from headscope.errors import InputError
    from headscope.heads.roles.report import Report

    try:
        return Report.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InputError(
            f"{path} is not a report of heads ({problem}); headscope heads MODEL --json > {path.name} writes one"
        ) from problem


def show_report(report: Report, claims: Sequence[ClaimCheck] | None, as_json: bool) -> None:
    if as_json:
        show_json(report.to_dict() | {"papers": [asdict(claim) for claim in claims or []]})
        return
    typer.echo(str(report))
    for claim in claims or []:
        typer.echo(f"  {claim}")
    if claims is not None and not claims:
        typer.echo(f"no published claims about {report.model} are known to headscope")


def show_claims(model: str | None, why: str, as_json: bool) -> None:
    """Print published claims without testing them: about one model, or all that have claims."""
    from headscope.heads.roles.published_claims import claims_about, models_with_claims, unchecked_claims

    names = [model] if model else models_with_claims()
    if as_json:
        claims = [claim for name in names for claim in unchecked_claims(name, why or "no weights were tested")]
        show_json({"papers": [asdict(claim) for claim in claims]})
        return
    for name in names:
        typer.echo(name)
        for claim in claims_about(name):
            typer.echo(f"  {claim}")
    if why:
        typer.echo(f"published claims only: {why}", err=True)
