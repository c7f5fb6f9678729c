"""The Typer app, options shared by several commands, and functions that read and print for them."""

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
    typer.Option("--class", help="NAME=REGEX: attention to matching tokens; NAME=A=>B: from tokens A to tokens B."),
]
Heads = Annotated[list[str], typer.Option("--head", "-h", help="A head, as in 3.5; may be repeated.")]


def one_model(model: str | None, named: str | None) -> str | None:
    """The model, by position or by --model."""
    from headscope.errors import InputError

    if model is not None and named is not None:
        raise InputError(f"two models are named, {model} and --model {named}; give one of them")
    return named if model is None else model


MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".wav")


def text_or_media(text: str) -> str | Path:
    """A text, or the path of a picture or sound."""
    path = Path(text)
    return path if path.suffix.lower() in MEDIA and path.is_file() else text


def show(what: Any) -> None:
    """Print text or a rich renderable."""
    from rich.console import Console

    Console().print(what)


def show_json(what: Any) -> None:
    import json

    typer.echo(json.dumps(what, ensure_ascii=False, indent=2))


def read_texts(sources: list[str], count: int, characters: int) -> list[str]:
    """The first ``count`` texts of at most so many characters from files, folders or globs."""
    from headscope.errors import InputError
    from headscope.scan.corpus.documents import Corpus

    texts: list[str] = []
    for source in sources:
        corpus = Corpus(source)
        for passage in corpus:
            starts = range(0, len(passage.text), characters)
            texts += [text for start in starts if len(text := passage.text[start : start + characters].strip()) > 20]
            if len(texts) >= count:
                return texts[:count]
        if not texts:
            raise InputError(
                f"there is no text to measure on in {source}: {'; '.join(corpus.problems) or 'it is empty'}"
            )
    return texts
