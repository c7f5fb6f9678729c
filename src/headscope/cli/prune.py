"""The prune command: remove heads from a model's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headscope.cli.options import AsJson, Model, ModelArgument, Texts, app, one_model, read_texts, say, show_json


@app.command()
def prune(
    out: Annotated[Path, typer.Option("--out", "-o", help="A new folder for the smaller model.")],
    model: ModelArgument = None,
    named: Model = None,
    keep: Annotated[float | None, typer.Option(help="The fraction of heads to keep, for example 0.7.")] = None,
    head: Annotated[
        list[str] | None, typer.Option("--head", help="Remove this head, for example 3.5. Can be repeated.")
    ] = None,
    texts: Texts = None,
    even: Annotated[
        bool,
        typer.Option("--even", help="Remove the same number of heads from every layer: opens in plain transformers."),
    ] = False,
    by: Annotated[
        str, typer.Option(help="How --keep ranks heads: exact, or gradient (faster, less accurate).")
    ] = "exact",
    as_json: AsJson = False,
) -> None:
    """Remove heads from a model's weights, measure the loss before and after, and save the smaller model.

    Example: headscope prune gpt2 --keep 0.7 --texts book.txt --out smaller
    """
    from headscope import load
    from headscope.errors import InputError

    if by not in ("exact", "gradient"):
        raise InputError(f"--by {by}: heads are ranked by exact or gradient")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not empty; give a new folder")
    options: dict[str, Any] = {"texts": read_texts(texts or [], 16, 1000), "even": even, "by": by}
    with load(one_model(model, named)) as scope:
        pruned = scope.prune(keep=keep, heads=head, **options)
        pruned.save(out)
    if as_json:
        show_json(pruned.to_dict() | {"folder": str(out)})
        return
    say(str(pruned))
    say(f"saved {out}; look at it with: headscope serve {out}")
