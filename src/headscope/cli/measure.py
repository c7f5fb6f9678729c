"""Commands that measure a model: its self-check, its heads' roles, a scan of a corpus, two scans compared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import INTERRUPTED
from headscope.cli.options import AsJson, Classes, Model, ModelArgument, app, chosen, show, show_json


@app.command()
def heads(
    model: ModelArgument = None,
    named: Model = None,
    inputs: Annotated[int, typer.Option(help="Inputs a probe; more inputs, narrower intervals.")] = 32,
    role: Annotated[list[str] | None, typer.Option(help="Test this role only; several times for several.")] = None,
    question: Classes = None,
    texts: Annotated[list[str] | None, typer.Option("--texts", "-t", help="Where to ask --class.")] = None,
    arcs: Annotated[Path | None, typer.Option(help="A CoNLL-U file: each of its relations is a role.")] = None,
    papers: Annotated[bool, typer.Option("--papers", help="Hold published claims about this model beside it.")] = False,
    report: Annotated[Path | None, typer.Option(help="Read this earlier --json report instead of testing.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """What every head does, with evidence: roles that pass their tests, and how many heads have none.

    Questions of your own (--class, --arcs) are tested by themselves, unless --role names others too.

    Example: headscope heads gpt2 --papers, or headscope heads --class "digits=[0-9]" --texts book.txt
    """
    from headscope.cli.heads import claims_alone, earlier, examined, show_report
    from headscope.errors import ModelError
    from headscope.heads.roles.published_claims import check_claims, claims_about

    model = chosen(model, named)
    if report is not None:
        found = earlier(report)
    elif papers and model is None:
        claims_alone(None, "", as_json)
        return
    else:
        try:
            found = examined(model, inputs, seed, tuple(role or ()), (question or [], texts or [], arcs))
        except ModelError as error:
            if not papers or not claims_about(model or ""):
                raise
            claims_alone(model, str(error), as_json)
            return
    show_report(found, check_claims(found) if papers else None, as_json)


@app.command()
def scan(
    corpus: Annotated[list[str], typer.Option("--corpus", "-c", help="Text, JSONL, Parquet, a folder, a glob, or -.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the census; a killed scan goes on there.")],
    model: ModelArgument = None,
    named: Model = None,
    context: Annotated[int | None, typer.Option(help="Tokens in a row; up to 1,024 unless given.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop after about so many tokens.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that share the work.")] = 1,
    ray: Annotated[str | None, typer.Option(help="A Ray address, or local.")] = None,
    question: Classes = None,
    as_json: AsJson = False,
) -> None:
    """A census: every head and question over a whole corpus, resumable.

    Example: headscope scan --corpus books/*.txt --out census --class "digits=[0-9]+"
    """
    from headscope.app.json_output import census_json
    from headscope.heads.questions.label_rules import read_class
    from headscope.scan.options import ScanOptions
    from headscope.scope import load

    rules = tuple(read_class(entry) for entry in question or ())
    options = ScanOptions(context=context, max_tokens=max_tokens, workers=workers, ray=ray, rules=rules)
    with load(chosen(model, named)) as scope:
        try:
            census = scope.scan(corpus[0] if len(corpus) == 1 else corpus, out=out, options=options)
        except KeyboardInterrupt as stopped:
            typer.echo(f"stopped: {stopped}; the same command goes on from there", err=True)
            raise typer.Exit(INTERRUPTED) from stopped
    if as_json:
        show_json(census_json(census))
    else:
        show(census)
        typer.echo(f"{out}/report.html shows it; census.parquet has a row for each head and question")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="The folder of a census.")],
    after: Annotated[Path, typer.Argument(help="The folder of another one.")],
    count: Annotated[int, typer.Option("--count", "-n", help="How many changes to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Two censuses side by side: which heads changed most.

    Example: headscope compare census/english census/code
    """
    from headscope.app.terminal import comparison_table
    from headscope.scan.compare import compare as compare_censuses

    found = compare_censuses(before, after)
    if as_json:
        show_json(found.to_arrow().to_pylist())
    else:
        show(comparison_table(found, count))


@app.command()
def check(
    model: ModelArgument = None,
    named: Model = None,
    as_json: AsJson = False,
) -> None:
    """Open a model and print its self-check in full: sites, logits, head parts, an edit.

    Example: headscope check gpt2
    """
    from headscope.app import json_output
    from headscope.scope import load

    with load(chosen(model, named)) as scope:
        if as_json:
            show_json(json_output.model_json(scope))
            return
        typer.echo(str(scope.model.self_check))
        for note in scope.notes:
            typer.echo(f"note  {note}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What is installed, which backends work here, and why others do not."""
    from headscope.app.doctor import examine

    checks = examine()
    if as_json:
        show_json([asdict(check) for check in checks])
        return
    for check in checks:
        typer.echo(f"{'ok ' if check.works else 'no '} {check.name:<18} {check.detail}")
