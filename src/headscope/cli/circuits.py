"""Commands about circuits: which heads compose, from the weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headscope.cli.options import AsJson, Model, ModelArgument, app, one_model, show, show_json

if TYPE_CHECKING:
    from rich.table import Table

    from headscope.names import Head

Through = Literal["q", "k", "v"]


@app.command()
def composition(
    model: ModelArgument = None,
    named: Model = None,
    through: Annotated[Through, typer.Option(help="The input of the later head.")] = "k",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of pairs to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print which heads read what earlier heads write: composition scores of all pairs, from the weights.

    Example: headscope composition gpt2 --through k --count 10
    """
    from headscope.scope import load

    with load(one_model(model, named)) as scope:
        pairs = scope.compositions(through).strongest(count)
    if as_json:
        show_json([{"writer": str(writer), "reader": str(reader), "score": score} for writer, reader, score in pairs])
        return
    show(_composition_table(pairs, through))


def _composition_table(pairs: Sequence[tuple[Head, Head, float]], through: str) -> Table:
    """Composition scores of pairs of heads."""
    from rich.table import Table

    table = Table("writer", f"reader's {through}", "score", box=None)
    for writer, reader, score in pairs:
        table.add_row(str(writer), str(reader), f"{score:.3f}")
    return table
