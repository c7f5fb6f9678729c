"""The heads command: test every head for its roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headscope.cli import INTERRUPTED, options
from headscope.cli.options import app, say, show_json

if TYPE_CHECKING:
    from headscope.heads.roles.published_claims import ClaimCheck
    from headscope.heads.roles.report import Report

Own = tuple[list[str], list[str]]
"""Classes of tokens, and the files they are measured on."""


@app.command()
def heads(
    model: options.ModelArgument = None,
    named: options.Model = None,
    inputs: Annotated[int, typer.Option(help="Test inputs per role; more inputs give narrower intervals.")] = 32,
    role: Annotated[list[str] | None, typer.Option(help="Test only this role. Can be repeated.")] = None,
    head: Annotated[
        list[str] | None,
        typer.Option("--head", help="Also say where this head looks on ordinary text, for example 5.6."),
    ] = None,
    importance: Annotated[
        bool, typer.Option("--importance", help="Also say how the loss on ordinary text changes without each --head.")
    ] = False,
    question: options.Classes = None,
    texts: options.Texts = None,
    papers: Annotated[bool, typer.Option("--papers", help="Compare with published claims about this model.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="The same seed gives the same inputs.")
    ] = 0,
    as_json: options.AsJson = False,
    brief: options.Brief = False,
) -> None:
    """Test every head for known roles (induction, previous token, …) and list those that pass, with evidence.

    Your own questions (--class) are tested alone, unless --role names others too. Ctrl-C prints what is done.
    Where all heads look on ordinary text is in --json, under "where".

    Example: headscope heads gpt2 --papers, or headscope heads --class "digits=[0-9]" --texts book.txt
    """
    from headscope.errors import ModelError
    from headscope.heads.roles.published_claims import check_claims, claims_about

    model = options.one_model(model, named)
    if papers and model is None:
        _show_claims(None, "", as_json)
        return
    try:
        found = _test_heads(model, inputs, seed, tuple(role or ()), (question or [], texts or []), importance)
    except ModelError as error:
        if not papers or not claims_about(model or ""):
            raise
        _show_claims(model, str(error), as_json)
        return
    if brief:
        show_json(found.to_short())
    else:
        _show_report(found, check_claims(found) if papers else None, as_json, "" if model else "the built-in model")
    for each in () if as_json or brief else head or ():
        say(f"{each}  {found.sentence(each)}")
    if "stopped" in found.recipe:
        say(f"stopped {found.recipe['stopped']}", err=True)
        raise typer.Exit(INTERRUPTED)


def _test_heads(
    model: str | None, inputs: int, seed: int, roles: tuple[str, ...], own: Own, importance: bool
) -> Report:
    """Run the battery, or the chosen roles and the user's own, on a model."""
    from headscope import load
    from headscope.errors import InputError
    from headscope.heads.questions.label_rules import read_class
    from headscope.heads.roles.custom_roles import own_role
    from headscope.heads.roles.run import RoleOptions

    classes, files = own
    if files and not classes:
        raise InputError("--texts holds the texts for --class; give a class too, as in --class digits=[0-9]")
    rules = [read_class(entry) for entry in classes]
    texts = options.read_texts(files, 64, 300) if files else None
    with load(model) as scope:
        asked = tuple(own_role(rule, texts) for rule in rules)
        chosen = roles or (() if asked else None)
        return scope.heads(RoleOptions(inputs=inputs, roles=chosen, own=asked, seed=seed, importance=importance))


def _show_report(report: Report, claims: Sequence[ClaimCheck] | None, as_json: bool, called: str) -> None:
    if as_json:
        show_json(report.to_dict() | {"papers": [asdict(claim) for claim in claims or []]})
        return
    say(str(report).replace(report.model, called or report.model, 1))
    for claim in claims or []:
        say(f"  {claim}")
    if claims is not None and not claims:
        say(f"no published claims about {report.model} are known to headscope")


def _show_claims(model: str | None, why: str, as_json: bool) -> None:
    """Print published claims without testing them: about one model, or all that have claims."""
    from headscope.heads.roles.published_claims import claims_about, models_with_claims, unchecked_claims

    names = [model] if model else models_with_claims()
    if as_json:
        claims = [claim for name in names for claim in unchecked_claims(name, why or "no weights were tested")]
        show_json({"papers": [asdict(claim) for claim in claims]})
        return
    for name in names:
        say(name)
        for claim in claims_about(name):
            say(f"  {claim}")
    if why:
        say(f"published claims only: {why}", err=True)
