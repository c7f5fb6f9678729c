"""The publish command: a microscope as a static site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from headscope.cli.options import AsJson, Model, app, say, show_json

MEGABYTE = 1e6
Precision = Literal["float16", "float32"]  # of weights in a site


@app.command()
def publish(
    out: Annotated[Path, typer.Option("--out", "-o", help="A new folder for the website, or a file for --one-file.")],
    models: Annotated[
        list[str] | None, typer.Argument(help="Hugging Face model names or folders [default: the built-in model].")
    ] = None,
    named: Model = None,
    census: Annotated[list[Path] | None, typer.Option(help="Scan results to show. Can be repeated.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="A text to save with the website. Can be repeated.")] = None,
    title: Annotated[str, typer.Option(help="The title of the website.")] = "",
    footer: Annotated[str, typer.Option(help="Your own sentence at the bottom of the page.")] = "",
    docs: Annotated[str, typer.Option(help="Address of the documentation to link to.")] = "",
    dtype: Annotated[
        Precision | None,
        typer.Option(
            help="Precision of the weights [default: float16 if it matches Python to within 1e-3, else float32]."
        ),
    ] = None,
    i_may: Annotated[
        bool, typer.Option("--i-may", help="Publish weights even if their licence is not stated.")
    ] = False,
    one_file: Annotated[
        bool, typer.Option("--one-file", help="Write one .html file that opens from a disk, without a server.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the microscope as a static website; its model runs in the visitor's browser, without Python.

    Example: headscope publish --out site --title 'Heads of a small model'
    """
    from headscope.app.publish.site import PublishOptions, publish

    options = PublishOptions(
        out=out, models=[*(models or ()), *filter(None, [named])], censuses=census or (), looks=text or (), title=title,
        text=footer, docs=docs, dtype=dtype, i_may=i_may, one_file=one_file,
    )  # fmt: skip
    made = publish(options, lambda line: None if as_json else say(line, err=True))
    if as_json:
        entries = [model.to_dict() | {"verified": model.verified and vars(model.verified)} for model in made.models]
        show_json({"folder": str(out), "models": entries, "bytes": made.sizes})
    else:
        _say_sizes(out, made.sizes, one_file=one_file)


def _say_sizes(out: Path, sizes: Mapping[str, int], *, one_file: bool) -> None:
    """What was written, largest first, and how to open it."""
    whole = f"{sum(sizes.values()) / MEGABYTE:8.2f} MB  in {out}"
    if one_file:
        say(f"{whole}; open it in a browser")
        return
    for part, size in sorted(sizes.items(), key=lambda item: -item[1]):
        say(f"{size / MEGABYTE:8.2f} MB  {part}")
    say(f"{whole}; try it: python -m http.server --directory {out}")
