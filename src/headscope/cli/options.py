"""What the commands share: the one Typer app, options that mean the same everywhere, and how results are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="headscope",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: boxes cost a hundred milliseconds of imports
)

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="A hub name, a folder or a GGUF file; the embedded model if none.")
]
ModelArgument = Annotated[
    str | None, typer.Argument(help="A hub name, a folder or a GGUF file; the embedded model if none.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="NAME=REGEX: attention to such tokens; NAME=A=>B: from tokens A to tokens B."),
]
Heads = Annotated[list[str], typer.Option("--head", "-h", help="A head, as in 3.5; several times for several.")]


def chosen(model: str | None, named: str | None) -> str | None:
    """The model, given either by position or with --model."""
    from headscope.errors import InputError

    if model is not None and named is not None:
        raise InputError(f"two models are named, {model} and --model {named}; give one of them")
    return named if model is None else model


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


def pieces_of(sources: list[str], count: int, letters: int) -> list[str]:
    """The first pieces of what was named: enough to measure on, few and short enough to wait for."""
    from headscope.errors import InputError
    from headscope.scan.corpus.documents import Corpus

    pieces: list[str] = []
    for source in sources:
        corpus = Corpus(source)
        for passage in corpus:
            starts = range(0, len(passage.text), letters)
            pieces += [piece for start in starts if len(piece := passage.text[start : start + letters].strip()) > 20]
            if len(pieces) >= count:
                return pieces[:count]
        if not pieces:
            raise InputError(
                f"there is no text to measure on in {source}: {'; '.join(corpus.problems) or 'it is empty'}"
            )
    return pieces
