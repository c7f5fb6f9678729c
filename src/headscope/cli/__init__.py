"""The command line. Each command is a short function; what it needs is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headscope import __version__

from headscope.cli import see, measure, shrink, learn  # isort: skip - the order of the help
from headscope.cli.shared import app
from headscope.errors import HeadscopeError

__all__ = ["app", "learn", "main", "measure", "see", "shrink"]


def main() -> None:
    """Run the command line. With no command: the microscope. An error of ours is its message, not a stack trace."""
    given = sys.argv[1:] or ["serve" if _can_open_the_page() else "build"]
    try:
        app(given)
    except HeadscopeError as error:
        typer.echo("\n".join([f"error: {error}", *error.__notes__]), err=True)
        sys.exit(1)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"headscope {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A microscope for attention heads. With no command: open it on the embedded model."""


def _can_open_the_page() -> bool:
    """Whether the page and the embedded model have been built into this copy."""
    package = Path(__file__).parent.parent
    return (package / "app/static/index.html").exists() and (package / "models/embedded/config.json").exists()
