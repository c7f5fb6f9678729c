"""Every head in words, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.cli.options import (
    LARGEST_SEED,
    AsJson,
    Classes,
    Model,
    ModelArgument,
    app,
    one_model,
    read_texts,
    refuse_overwriting,
    show_json,
)

if TYPE_CHECKING:
    from headscope.heads.rules.report import Rules
    from headscope.scope import Scope

TEXTS, CHARACTERS = 24, 1000


def corpus_rules(scope: Scope, corpus: list[str], path: Path) -> Rules:
    """The rules of a model on the first texts of a corpus: those in this file, or fitted and saved there."""
    from headscope.scope import open_rules

    if path.exists():
        return open_rules(path, scope)
    found = scope.rules(_short_enough(scope, read_texts(corpus, TEXTS, CHARACTERS)))
    found.save(path)
    return found


def refuse_streams(corpus: list[str]) -> None:
    """Refuse a corpus that can be read only once: rules are fitted on its first texts after it was scanned."""
    from headscope.errors import InputError
    from headscope.scan.corpus.documents import Corpus

    for source in corpus:
        if Corpus(source).known_by_reading:
            raise InputError(
                f"--rules reads the corpus a second time, and {source} can be read only once; save the text to a file "
                "and scan that, or leave out --rules"
            )


def _short_enough(scope: Scope, texts: list[str]) -> list[str]:
    """Texts cut to what the model reads: a token is at least a character."""
    longest = min(CHARACTERS, (scope.shape.context or CHARACTERS) - 2)
    return [text[:longest] for text in texts]


@app.command()
def rules(
    model: ModelArgument = None,
    named: Model = None,
    texts: Annotated[
        list[str] | None, typer.Option("--texts", "-t", help="Files to read; headscope's lessons unless given.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=3, help="How many texts to read.")] = TEXTS,
    question: Classes = None,
    tables: Annotated[bool, typer.Option("--tables/--no-tables", help="Fit class tables too.")] = True,
    context: Annotated[
        bool, typer.Option("--context/--no-context", help="Describe heads in short context too.")
    ] = True,
    cost: Annotated[bool, typer.Option("--cost", help="Measure what running on rules costs, too.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the rules here.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same rules.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say what every head does: a short mixture of rules, and what it explains beyond position alone.

    Example: headscope rules gpt2 --texts book.txt --cost
    """
    from headscope.heads.questions.label_rules import read_class
    from headscope.heads.rules.run import RuleOptions
    from headscope.lab.teach.course.passages import lesson_passages
    from headscope.scan.corpus.documents import find_files
    from headscope.scope import load

    refuse_overwriting(out, (path for source in texts or () for path in find_files(source) or ()))
    given = read_texts(texts, count, CHARACTERS) if texts else lesson_passages()[:count]
    own = tuple(read_class(entry) for entry in question or ())
    with load(one_model(model, named)) as scope:
        given = _short_enough(scope, given)
        found = scope.rules(given, RuleOptions(rules=own, tables=tables, context=context, seed=seed))
        measured = found.cost(given[2::3]) if cost else None
    if out is not None:
        found.save(out)
    if as_json:
        written: dict[str, Any] = found.to_dict()
        show_json(written if measured is None else written | {"cost": measured.to_dict()})
        return
    for head in found:
        typer.echo(f"{head.head!s:>6}  gain {head.gain.value:+.2f}  {head.sentence}")
    typer.echo(repr(found))
    if measured is not None:
        typer.echo(repr(measured))
