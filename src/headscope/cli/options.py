"""The Typer app, options shared by several commands, and functions that read and print for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer
from typer.core import TyperGroup

from headscope.cli import SCHEMA_VERSION
from headscope.names import printable

PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # plain help: boxes cost a hundred milliseconds of imports
}
GROUPS = {
    "Look": ("serve", "look", "fetch", "doctor"),
    "Change": ("ablate", "patch", "generate", "prune"),
    "Explain": ("why", "trace", "attribution", "circuit", "sources"),
    "Measure": ("heads", "importance", "scan", "compare"),
    "Learn": ("learn", "card", "train", "explain"),
    "Share": ("publish", "mcp"),
}


class Grouped(TyperGroup):
    """Commands, listed by what they are for, each with its whole first sentence."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = GROUPS

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in self.groups.items():
            rows = [(name, " ".join((self.commands[name].help or "").split("\n\n")[0].split())) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(name="headscope", cls=Grouped, context_settings={"help_option_names": ["-h", "--help"]}, **PLAIN)

MODEL_HELP = "Hugging Face model name, local folder, GGUF file, or ollama:NAME [default: the built-in model]."
Model = Annotated[str | None, typer.Option("--model", "-m", help=MODEL_HELP)]
ModelArgument = Annotated[str | None, typer.Argument(help=MODEL_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Brief = Annotated[bool, typer.Option("--brief", help="Print short JSON: the result, its evidence and its limits.")]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="NAME=REGEX: attention to matching tokens. NAME=A=>B: from tokens A to tokens B."),
]
LARGEST_SEED = 2**32 - 1
ROWS = 20  # printed unless --count says otherwise
Text = Annotated[str, typer.Argument(help="The text.")]
Texts = Annotated[
    list[str] | None,
    typer.Option("--texts", "-t", help="Text, JSONL or Parquet file, folder or glob. Can be repeated."),
]
Corpus = Annotated[
    list[str],
    typer.Option("--corpus", "-c", help="Text, JSONL or Parquet file, folder, glob, or - for standard input."),
]
Through = Literal["q", "k", "v"]
Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="Number of rows [default: 20, and all of them with --json].")
]
Heads = Annotated[list[str], typer.Option("--head", help="A head, for example 3.5. Can be repeated.")]


def one_model(model: str | None, named: str | None) -> str | None:
    """The model, by position or by --model."""
    from headscope.errors import InputError

    if model is not None and named is not None:
        raise InputError(f"two models are named, {model} and --model {named}; give one of them")
    return named if model is None else model


def refuse_overwriting(out: Path | None, read: Iterable[str | Path]) -> None:
    """Refuse to save over a file that the same command reads."""
    from headscope.errors import InputError

    if out is not None and out.exists() and any(out.samefile(path) for path in read):
        raise InputError(f"{out} is read by this command and would be written over; give another name")


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text that may hold names of files or models: control characters are shown, not sent to the terminal."""
    typer.echo(printable(text), err=err, nl=nl)


def show(what: Any) -> None:
    """Print text or a rich renderable; control characters in it are shown."""
    from rich.console import Console, ConsoleOptions
    from rich.protocol import is_renderable
    from rich.segment import Segment

    class Printable:
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
            inner = what if is_renderable(what) else str(what)
            inner = console.render_str(inner, markup=isinstance(what, str)) if isinstance(inner, str) else inner
            for text, style, control in console.render(inner, options):
                yield Segment(text if control else printable(text), style, control)

    Console().print(Printable())


def show_json(what: dict[str, Any]) -> None:
    """Print JSON with its ``schema_version``: null for NaN, and escapes of characters that a terminal would obey."""
    import json

    from pydantic_core import to_jsonable_python

    what = to_jsonable_python({"schema_version": SCHEMA_VERSION} | what, inf_nan_mode="null")
    written = json.dumps(what, ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo("".join(f"\\u{ord(each):04x}" if printable(each) == "�" != each else each for each in written))


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
