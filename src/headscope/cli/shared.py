"""What the commands share: the one Typer app, options that mean the same everywhere, and how results are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="headscope",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="A hub name, a folder or a GGUF file; the embedded model if none.")
]
ModelArgument = Annotated[
    str | None, typer.Argument(help="A hub name, a folder or a GGUF file; the embedded model if none.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Heads = Annotated[list[str], typer.Option("--head", "-h", help="A head, as in 3.5; several times for several.")]


MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".wav")


def given(text: str) -> str | Path:
    """A text, or the picture or sound that it is the path of."""
    path = Path(text)
    return path if path.suffix.lower() in MEDIA and path.is_file() else text


def show(what: Any) -> None:
    """Print something of rich's, or plain text."""
    from rich.console import Console

    Console().print(what)


def show_json(what: Any) -> None:
    import json

    typer.echo(json.dumps(what, ensure_ascii=False, indent=2))
