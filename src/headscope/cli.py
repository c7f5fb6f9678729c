"""The command line. Each command is a short function; what it needs is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headscope import __version__
from headscope.errors import HeadscopeError

app = typer.Typer(
    name="headscope",
    help="A microscope for attention heads: build, see, measure and change every head of a transformer.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; an error of ours is one line, not a stack trace."""
    try:
        app()
    except HeadscopeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headscope {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """With no command: open the microscope on the embedded model."""
    if context.invoked_subcommand is not None:
        return
    if _can_open_the_page():
        serve()
    else:
        build()


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


def _can_open_the_page() -> bool:
    """Whether the page and the embedded model have been built into this copy."""
    package = Path(__file__).parent
    return (package / "app/static/index.html").exists() and (package / "models/embedded/config.json").exists()
