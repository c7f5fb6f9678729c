"""Commands about circuits: which heads compose, from the weights alone."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headscope.cli.options import AsJson, Model, ModelArgument, app, one_model, show, show_json

Through = Literal["q", "k", "v"]


@app.command()
def composition(
    model: ModelArgument = None,
    named: Model = None,
    through: Annotated[Through, typer.Option(help="The input of the later head.")] = "k",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many pairs to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Which heads read what earlier heads write, from the weights: composition scores of all pairs.

    Example: headscope composition gpt2 --through k --count 10
    """
    from headscope.scope import load

    with load(one_model(model, named)) as scope:
        pairs = scope.compositions(through).strongest(count)
    if as_json:
        show_json([{"writer": str(writer), "reader": str(reader), "score": score} for writer, reader, score in pairs])
        return
    from headscope.app.terminal import composition_table

    show(composition_table(pairs, through))
