"""Register all commands; the default command and ``--version``."""

from __future__ import annotations

from typing import Annotated

import typer

from headscope import __version__
from headscope.cli import explain, fetch, heads, learn, look, mcp, measure, prune, publish
from headscope.cli.options import app

__all__ = ["app", "explain", "fetch", "heads", "learn", "look", "mcp", "measure", "prune", "publish"]


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"headscope {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A microscope for attention heads. Without a command: open it on the built-in model."""
