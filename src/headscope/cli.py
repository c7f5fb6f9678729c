"""The command line. Each command is a short function; what it needs is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headscope import __version__
from headscope.errors import HeadscopeError

app = typer.Typer(
    name="headscope",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line. With no command: the microscope. An error of ours is one line, not a stack trace."""
    given = sys.argv[1:] or ["serve" if _can_open_the_page() else "build"]
    try:
        app(given)
    except HeadscopeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"headscope {__version__}")
        raise typer.Exit
    return wanted


Model = Annotated[
    str | None, typer.Option("--model", "-m", help="A hub name, a folder or a GGUF file; the embedded model if none.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Heads = Annotated[list[str], typer.Option("--head", "-h", help="A head, as in 3.5; several times for several.")]


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A microscope for attention heads. With no command: open it on the embedded model."""


@app.command()
def serve(
    model: Annotated[str | None, typer.Argument(help="A model's name or folder; the embedded one if none.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; any free one if none is given.")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Open the microscope in the browser."""
    from headscope.app.server import serve as serve_page
    from headscope.app.session import Session
    from headscope.scope import load

    serve_page(Session(load(model)), port=port, open_browser=not no_open)


@app.command()
def build(
    d_model: Annotated[int, typer.Option(help="Width of the model.")] = 768,
    heads: Annotated[int, typer.Option(help="Number of heads.")] = 12,
    kv_heads: Annotated[int | None, typer.Option(help="Key/value heads, shared in groups.")] = None,
) -> None:
    """Build multi-head attention from one head to many, with the shape at each step."""
    from headscope.attention.__main__ import show

    raise typer.Exit(show(d_model, heads, kv_heads))


@app.command()
def look(
    text: Annotated[str, typer.Argument(help="The text to look at.")],
    model: Model = None,
    head: Annotated[str | None, typer.Option("--head", "-h", help="Draw this head's pattern, as in 3.5.")] = None,
    png: Annotated[Path | None, typer.Option(help="Save the head's pattern as a picture (needs --head).")] = None,
    as_json: AsJson = False,
) -> None:
    """One text under the microscope: its next tokens, and which heads do what in it.

    Example: headscope look "The horse crossed the road because it was tired." --head 3.5
    """
    from headscope.app import picture, report, terminal
    from headscope.errors import InputError
    from headscope.scope import load

    if png is not None and head is None:
        raise InputError("--png draws one head; name it with --head, as in --head 3.5")
    with load(model) as scope:
        seen = scope.look(text)
        if as_json:
            _print_json(report.of_look(seen, head))
            return
        _print(terminal.summary(seen) if head is None else terminal.pattern(seen, head))
        if png is not None and head is not None:
            picture.save_png(seen, head, png)
            typer.echo(f"saved {png}")


@app.command()
def ablate(
    text: Annotated[str, typer.Argument(help="The text to predict from.")],
    head: Heads,
    model: Model = None,
    how: Annotated[str, typer.Option(help="zero, or mean: what stands in for the heads.")] = "zero",
    as_json: AsJson = False,
) -> None:
    """Switch heads off, and see the next token with and without them.

    Example: headscope ablate "When Mary and John went to the shop, John gave a book to" --head 5.1 --head 6.3
    """
    from headscope.app import report, terminal
    from headscope.heads.edits import Ablate
    from headscope.scope import load

    with load(model) as scope:
        before = scope.look(text)
        with scope.edit(Ablate(tuple(head), how)):  # type: ignore[arg-type]
            after = scope.look(text)
        change = report.of_change(before, after, head)
    if as_json:
        _print_json(change)
    else:
        _print(terminal.change_table(change))


@app.command()
def generate(
    text: Annotated[str, typer.Argument(help="The text to go on from.")],
    model: Model = None,
    tokens: Annotated[int, typer.Option("--tokens", "-n", help="How many tokens.")] = 40,
    temperature: Annotated[float, typer.Option(help="0 is greedy; 1 is the model's own.")] = 0.0,
    top_p: Annotated[float | None, typer.Option(help="Keep the fewest tokens that make up this share.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    off: Annotated[list[str] | None, typer.Option("--off", help="Switch this head off while writing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let the model go on from a text, with heads switched off if you like.

    Example: headscope generate "Alice was" --temperature 0.7 --off 5.1
    """
    from headscope.app import report
    from headscope.heads.edits import Ablate
    from headscope.heads.sampling import Sampling
    from headscope.scope import load

    with load(model) as scope, scope.edit(*([Ablate(tuple(off))] if off else [])):
        made = scope.generate(text, tokens, Sampling(temperature=temperature, top_p=top_p, seed=seed))
    if as_json:
        _print_json(report.of_generated(text, made))
    else:
        typer.echo(text + made.text)


@app.command()
def check(
    model: Annotated[str | None, typer.Argument(help="A hub name, a folder or a GGUF file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Open a model and print its self-check in full: sites, logits, head parts, an edit.

    Example: headscope check gpt2
    """
    from headscope.app import report
    from headscope.scope import load

    with load(model) as scope:
        if as_json:
            _print_json(report.of_scope(scope))
            return
        typer.echo(str(scope.model.report))
        for note in scope.notes:
            typer.echo(f"note  {note}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What is installed, which backends work here, and why others do not."""
    from headscope.app.doctor import examine, to_json

    findings = examine()
    if as_json:
        _print_json(to_json(findings))
        return
    for finding in findings:
        typer.echo(f"{'ok ' if finding.works else 'no '} {finding.name:<18} {finding.detail}")


def _print(what: Any) -> None:
    from rich.console import Console

    Console().print(what)


def _print_json(what: Any) -> None:
    import json

    typer.echo(json.dumps(what, ensure_ascii=False, indent=2))


def _can_open_the_page() -> bool:
    """Whether the page and the embedded model have been built into this copy."""
    package = Path(__file__).parent
    return (package / "app/static/index.html").exists() and (package / "models/embedded/config.json").exists()
