"""Commands that measure a model: importance, scan, compare; and doctor, which checks it and the installation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headscope.cli import INTERRUPTED, options
from headscope.cli.options import app, say, show, show_json

if TYPE_CHECKING:
    from rich.table import Table

    from headscope.scan.compare import Comparison


@app.command()
def scan(
    corpus: options.Corpus,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for the scan results; an interrupted scan resumes there.")
    ],
    model: options.ModelArgument = None,
    named: options.Model = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens per row [default: the model's context, at most 1,024].")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Stop after about this many tokens.")] = None,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    ray: Annotated[str | None, typer.Option(help="A Ray address, or local.")] = None,
    question: options.Classes = None,
    as_json: options.AsJson = False,
) -> None:
    """Scan a corpus: measure every head and question over all of its tokens. You can stop and resume it.

    Example: headscope scan --corpus "books/*.txt" --out census --class "digits=[0-9]+"
    """
    from headscope import load
    from headscope.heads.questions.label_rules import read_class
    from headscope.scan.options import ScanOptions

    rules = tuple(read_class(entry) for entry in question or ())
    settings = ScanOptions(context=context, max_tokens=max_tokens, workers=workers, ray=ray, rules=rules)
    with load(options.one_model(model, named)) as scope:
        try:
            census = scope.scan(corpus[0] if len(corpus) == 1 else [*map(Path, corpus)], out=out, options=settings)
        except KeyboardInterrupt as stopped:
            say(f"stopped: {stopped}; the same command resumes there", err=True)
            raise typer.Exit(INTERRUPTED) from stopped
    if as_json:
        show_json({"recipe": census.recipe.data, "rows": census.to_arrow().to_pylist()})
    else:
        show(census)
        say(f"headscope serve --census {out} shows it; {out}/census.parquet has one row per head and question")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="The folder of one scan.")],
    after: Annotated[Path, typer.Argument(help="The folder of another scan.")],
    count: options.Count = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare the results of two scans: which heads changed most.

    Example: headscope compare census/english census/code
    """
    from headscope.scan.compare import compare as compare_censuses

    found = compare_censuses(before, after)
    if as_json:
        show_json({"names": found.names, "changes": found.ranked_rows()[:count]})
    else:
        show(_comparison_table(found, count or options.ROWS))


@app.command()
def importance(
    text: Annotated[list[str] | None, typer.Argument(help="A text to measure on. Can be repeated.")] = None,
    model: options.Model = None,
    texts: options.Texts = None,
    how: Annotated[
        Literal["exact", "gradient"],
        typer.Option(help="Ablate every head (exact), or estimate all effects from one gradient."),
    ] = "exact",
    count: options.Count = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how much the loss on some texts changes without each head.

    Example: headscope importance "My white horse drank at the river. My white horse drank at the river." -n 5
    """
    from headscope import load

    with load(model) as scope:
        found = scope.importance([*(text or ()), *options.read_texts(texts or [], 16, 1000)], how)
    show_json({"how": how, "heads": found.ranked_rows()[:count]}) if as_json else say(
        found.listed(count or options.ROWS)
    )


@app.command()
def doctor(model: options.ModelArgument = None, named: options.Model = None, as_json: options.AsJson = False) -> None:
    """Check the installation: versions, devices, backends; or a model: its whole self-check.

    Example: headscope doctor, or headscope doctor gpt2
    """
    from headscope.app.doctor import examine

    if options.one_model(model, named) is not None:
        _check(options.one_model(model, named), as_json=as_json)
        return
    checks = examine()
    if as_json:
        show_json({"checks": [asdict(check) for check in checks]})
        return
    for check in checks:
        say(f"{'ok ' if check.works else 'no '} {check.name:<18} {check.detail}")


def _check(model: str | None, *, as_json: bool) -> None:
    """Open a model and print its self-check: sites, logits, head contributions, an edit."""
    from headscope import load
    from headscope.app import json_output

    with load(model) as scope:
        if as_json:
            show_json(json_output.model_json(scope))
            return
        check = scope.model.self_check
        say(str(check))
        for note in scope.notes:
            if check is None or note not in check.notes:  # else it was known before the weights were checked
                say(f"note  {note}")


def _comparison_table(comparison: Comparison, count: int) -> Table:
    """The largest changes between two censuses."""
    from rich.table import Table

    table = Table("head", "question", *comparison.names, "change", "95 %", box=None)
    for change in comparison.changes[:count]:
        interval = f"[{change.low:+.3f}, {change.high:+.3f}]" + ("" if change.clear else "  no clear change")
        interval = interval if change.low == change.low else "none: one document"
        values = (f"{change.before:.3f}", f"{change.after:.3f}", f"{change.difference:+.3f}")
        table.add_row(str(change.head), change.question, *values, interval)
    return table
