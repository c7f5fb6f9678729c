"""Commands that measure a model: heads, scan, compare, check; and doctor, which checks the installation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import INTERRUPTED
from headscope.cli.options import (
    LARGEST_SEED,
    AsJson,
    Classes,
    Model,
    ModelArgument,
    app,
    one_model,
    say,
    show,
    show_json,
)


@app.command()
def heads(
    model: ModelArgument = None,
    named: Model = None,
    inputs: Annotated[int, typer.Option(help="Inputs per probe; more inputs, narrower intervals.")] = 32,
    role: Annotated[list[str] | None, typer.Option(help="Test this role only; may be repeated.")] = None,
    question: Classes = None,
    texts: Annotated[list[str] | None, typer.Option("--texts", "-t", help="Texts to measure --class on.")] = None,
    papers: Annotated[bool, typer.Option("--papers", help="Compare with published claims about this model.")] = False,
    report: Annotated[Path | None, typer.Option(help="Read this earlier --json report instead of testing.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Test every head for its roles: those that pass, with evidence, and how many heads have none.

    Your own questions (--class) are tested alone, unless --role names others too. Ctrl-C prints what is done.

    Example: headscope heads gpt2 --papers, or headscope heads --class "digits=[0-9]" --texts book.txt
    """
    from headscope.cli.heads import read_report, refuse_unused, show_claims, show_report, test_heads
    from headscope.errors import ModelError
    from headscope.heads.roles.published_claims import check_claims, claims_about

    model = one_model(model, named)
    if report is not None:
        found = read_report(report)
        asked = {"--role": role, "--class": question, "--texts": texts, model: model}
        refuse_unused([name for name, value in asked.items() if name and value], report, found.model)
    elif papers and model is None:
        show_claims(None, "", as_json)
        return
    else:
        try:
            found = test_heads(model, inputs, seed, tuple(role or ()), (question or [], texts or []))
        except ModelError as error:
            if not papers or not claims_about(model or ""):
                raise
            show_claims(model, str(error), as_json)
            return
    show_report(found, check_claims(found) if papers else None, as_json)
    if "stopped" in found.recipe and report is None:
        say(f"stopped {found.recipe['stopped']}", err=True)
        raise typer.Exit(INTERRUPTED)


@app.command()
def scan(
    corpus: Annotated[list[str], typer.Option("--corpus", "-c", help="Text, JSONL, Parquet, a folder, a glob, or -.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The census folder; an interrupted scan resumes there.")],
    model: ModelArgument = None,
    named: Model = None,
    context: Annotated[int | None, typer.Option(help="Tokens per row; up to 1,024 unless given.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop after about this many tokens.")] = None,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    ray: Annotated[str | None, typer.Option(help="A Ray address, or local.")] = None,
    question: Classes = None,
    as_json: AsJson = False,
) -> None:
    """Scan a corpus: every head and question over all of its tokens, resumable.

    Example: headscope scan --corpus "books/*.txt" --out census --class "digits=[0-9]+"
    """
    from headscope.app.json_output import census_json
    from headscope.heads.questions.label_rules import read_class
    from headscope.scan.options import ScanOptions
    from headscope.scope import load

    rules = tuple(read_class(entry) for entry in question or ())
    options = ScanOptions(context=context, max_tokens=max_tokens, workers=workers, ray=ray, rules=rules)
    with load(one_model(model, named)) as scope:
        try:
            census = scope.scan(corpus[0] if len(corpus) == 1 else [*map(Path, corpus)], out=out, options=options)
        except KeyboardInterrupt as stopped:
            say(f"stopped: {stopped}; the same command resumes there", err=True)
            raise typer.Exit(INTERRUPTED) from stopped
    if as_json:
        show_json(census_json(census))
    else:
        show(census)
        say(f"{out}/report.html shows it; census.parquet has one row per head and question")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="The folder of a census.")],
    after: Annotated[Path, typer.Argument(help="The folder of another one.")],
    count: Annotated[int, typer.Option("--count", "-n", help="How many changes to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Compare two censuses: which heads changed most.

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

    with load(one_model(model, named)) as scope:
        if as_json:
            show_json(json_output.model_json(scope))
            return
        check = scope.model.self_check
        say(str(check))
        for note in scope.notes:
            if note not in check.notes:  # those that were known before the weights were checked are in it
                say(f"note  {note}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check the installation: versions, devices, and which backends work here.

    Example: headscope doctor
    """
    from headscope.app.doctor import examine

    checks = examine()
    if as_json:
        show_json([asdict(check) for check in checks])
        return
    for check in checks:
        say(f"{'ok ' if check.works else 'no '} {check.name:<18} {check.detail}")
