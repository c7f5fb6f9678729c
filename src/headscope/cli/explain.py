"""Commands that explain: why a head looks there, where a prediction comes from, which circuit does a task."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import options
from headscope.cli.options import app, say, show_json
from headscope.names import quoted


@app.command()
def why(
    text: options.Text,
    head: Annotated[str, typer.Option("--head", help="The head, for example 5.6.")],
    model: options.Model = None,
    query: Annotated[
        str, typer.Option(help="The query token: its position, or the token itself if it occurs once.")
    ] = "-1",
    key: Annotated[str | None, typer.Option(help="The key token [default: the strongest key].")] = None,
    minus: Annotated[
        str | None,
        typer.Option(help="Compare with this key, or with 'others' [default: the average of all visible keys]."),
    ] = None,
    as_json: options.AsJson = False,
    brief: options.Brief = False,
) -> None:
    """Explain one attention weight: split its score over the components that wrote to the query and the key.

    Example: headscope why "My white horse drank at the river. My white horse drank at the" --head 5.6 --key river
    """
    from headscope import load

    with load(model) as scope:
        found = scope.look(text).why(
            head, _place(query), None if key is None else _place(key), None if minus is None else _place(minus)
        )
    if as_json or brief:
        show_json(found.to_short() if brief else found.to_dict())
        return
    typer.echo(str(found))


@app.command()
def trace(
    text: options.Text,
    token: Annotated[str | None, typer.Option(help="The predicted token [default: the most likely one].")] = None,
    minus: Annotated[str | None, typer.Option(help="Trace the difference to this token's logit.")] = None,
    model: options.Model = None,
    position: Annotated[
        str, typer.Option(help="Predict the token after this position [default: the last token].")
    ] = "-1",
    floor: Annotated[float, typer.Option(help="Hide contributions smaller than this fraction of the logit.")] = 0.03,
    as_json: options.AsJson = False,
) -> None:
    """Trace a prediction back to tokens: the heads, what they attend to, and which components led them there.

    Example: headscope trace "My white horse drank at the river. My white horse drank at the" --token " river"
    """
    from headscope import load

    with load(model) as scope:
        look = scope.look(text)
        wanted = look.predictions(_place(position), 1)[0].token.id if token is None else token
        found = look.trace(wanted, minus, _place(position), floor)
    if as_json:
        show_json(found.to_dict())
        return
    typer.echo(str(found))


@app.command()
def attribution(
    text: options.Text,
    token: Annotated[str | None, typer.Option(help="The predicted token [default: the most likely one].")] = None,
    minus: Annotated[str | None, typer.Option(help="Split the difference to this token's logit.")] = None,
    model: options.Model = None,
    count: options.Count = None,
    as_json: options.AsJson = False,
) -> None:
    """Split the logit of a next token over the heads: how much each raises or lowers it.

    Example: headscope attribution "Mary and John went out; John gave a book to" --token " Mary" --minus " John"
    """
    from headscope import load

    with load(model) as scope:
        look = scope.look(text)
        best = look.predictions(count=1)[0].token
        found = look.logit_attribution(best.id if token is None else token, minus=minus)
    if as_json:
        show_json({"logit": found.total, "rest": found.rest, "note": found.note, "heads": found.ranked_rows()[:count]})
        return
    rather = "" if minus is None else f" rather than {quoted(minus)}"
    say(f"{quoted(best.text if token is None else token)}{rather}: {found.listed(count or options.ROWS)}")


@app.command()
def circuit(
    task: Annotated[
        str | None,
        typer.Argument(
            help="induction, 'indirect object', successor, agreement, retrieval, pronouns, or a CSV file with the "
            "columns clean, corrupted, right and wrong."
        ),
    ] = None,
    model: options.Model = None,
    composition: Annotated[
        options.Through | None,
        typer.Option(
            help="Without a task: which pairs of heads compose, from the weights; q, k or v of the later.",
            case_sensitive=False,
        ),
    ] = None,
    wanted: Annotated[float, typer.Option(help="How faithful the circuit has to be, from 0 to 1.")] = 0.9,
    count: options.Count = None,
    out: Annotated[Path | None, typer.Option(help="Save the circuit: .json, .mib.json, or .dot.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the smallest circuit for a task: edges between heads and MLPs, and how faithful they are.

    Example: headscope circuit induction --out induction.json, or headscope circuit --composition k --count 10
    """
    import json

    from headscope import load
    from headscope.errors import InputError
    from headscope.files import write_atomic

    if (task is None) == (composition is None):
        raise InputError("give a task, as in `headscope circuit induction`, or --composition, and not both")
    if composition is not None:
        with load(model) as scope:
            pairs = scope.compositions(composition)
        show_json({"pairs": pairs.table().to_pylist()[:count]}) if as_json else say(pairs.listed(count or options.ROWS))
        return
    assert task is not None
    options.refuse_overwriting(out, [task] if os.path.isfile(task) else [])  # noqa: PTH113 - never an error
    with load(model) as scope:
        found = scope.circuit(task, wanted=wanted)
    if out is not None:
        if out.name.endswith(".dot"):
            write_atomic(out, found.to_graphviz().encode())
        elif out.name.endswith(".mib.json"):
            write_atomic(out, json.dumps(found.to_mib(), indent=1).encode())
        else:
            found.save(out)
    if as_json:
        strongest = sorted(found.edges.items(), key=lambda edge: -abs(edge[1]))
        show_json(found.to_dict() | {"edges": dict(strongest[:count])})
        return
    say(found.listed(count or options.ROWS))


def _place(given: str) -> int | str:
    """A position, or the text of a token."""
    return int(given) if re.fullmatch("-?[0-9]{1,18}", given) else given


@app.command()
def sources(
    documents: Annotated[list[str], typer.Argument(help="Text files, one document each; or the texts themselves.")],
    question: Annotated[str, typer.Option("--question", "-q", help="What is asked about them.")],
    model: options.Model = None,
    answer: Annotated[
        str | None, typer.Option(help="The answer to explain [default: the first word of the model's own].")
    ] = None,
    expected: Annotated[str | None, typer.Option(help="Another answer to measure, with its leading space.")] = None,
    carriers: Annotated[int | None, typer.Option(help="Show the heads that carry the document of this number.")] = None,
    within: Annotated[int | None, typer.Option(help="Measure the sentences of the document of this number.")] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also hide documents that were not used, two at a time.")
    ] = False,
    as_json: options.AsJson = False,
    brief: options.Brief = False,
) -> None:
    """Find which document an answer came from: what the answer loses when each is hidden, next to its attention.

    Example: headscope sources notes/*.txt --question "Where does Anna live?" --expected " Paris" -m smollm2
    """
    from headscope import load
    from headscope.scan.corpus.documents import Corpus

    texts = []
    for each in documents:
        stored = os.path.exists(each) or each.endswith((".txt", ".md"))  # noqa: PTH110 - never an error
        texts += [passage.text.strip() for passage in Corpus(each)] if stored else [each]
    with load(model) as scope:
        found = scope.sources(texts, question, answer, expected)
        found = found if within is None else found.within(within)
        carried = None if carriers is None else found.heads(carriers)
        both = found.pairs() if pairs else {}
    if brief:
        show_json(found.to_short())
    elif as_json:
        listed = [{"documents": pair, "effect": nats} for pair, nats in both.items()]
        more = ({"pairs": listed} if pairs else {}) | ({"heads": carried.table().to_pylist()} if carried else {})
        show_json(found.to_dict() | more)
    else:
        lines = [f"Without documents {one} and {two}: {nats:+.2f} nats" for (one, two), nats in both.items()]
        typer.echo("\n".join((str(found), *lines, *(("", str(carried)) if carried else ()))))
