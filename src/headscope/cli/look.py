"""Commands that look at a text or edit heads: serve, look, ablate, patch, generate."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from headscope.cli import options
from headscope.cli.options import app, say, show, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headscope.heads.look.look import Look
    from headscope.heads.questions.label_rules import LabelRule


Capture = Annotated[Path | None, typer.Option(help="Folder of captures from a vLLM server: show a served request.")]
CaptureName = Annotated[str | None, typer.Option(help="Name of the request in the folder of --capture.")]
MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".wav")


@app.command()
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Hugging Face model names or folders [default: `embedded`, the built-in model]."),
    ] = None,
    named: options.Model = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port [default: a free one].")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    host: Annotated[
        str | None, typer.Option(help="Also serve other machines, for example on 0.0.0.0. They need the printed token.")
    ] = None,
    allow_models: Annotated[
        bool, typer.Option("--allow-models", help="Let the page open other models, by Hugging Face name or folder.")
    ] = False,
    census: Annotated[
        list[Path] | None, typer.Option(help="Folder or .zip with scan results to show. Can be repeated.")
    ] = None,
    classroom: Annotated[
        bool, typer.Option("--classroom", help="Run a class: a teacher's page, and a code for students to join.")
    ] = False,
    capture: Capture = None,
    name: CaptureName = None,
) -> None:
    """Open the microscope in the browser.

    Example: headscope serve gpt2 --port 8000
    """
    from headscope import load, open_look
    from headscope.app.model_registry import ModelRegistry
    from headscope.app.pages.census import Censuses
    from headscope.app.pages.film import Films
    from headscope.app.server import ServeOptions
    from headscope.app.server import serve as serve_page
    from headscope.app.show import session_of
    from headscope.cli.fetch import offer

    models = [*(models or ()), *([named] if named else ())]
    if (capture or name) and not (capture and name and models):
        raise typer.BadParameter(
            "a served request is shown with its model: give the model, --capture and --name. Without it, save a page: "
            "headscope look --capture FOLDER --name NAME --save page.html"
        )
    for each in models:
        offer(each)
    censuses = Censuses(census or ())
    shown: list[Any] = [load(None if each == "embedded" else each) for each in models or ["embedded"]]
    if capture is not None:
        shown[0] = open_look(capture, shown[0], name=name)
    registry = ModelRegistry(*map(session_of, shown), opener=load if allow_models else None)
    settings = ServeOptions(
        host=host or ("0.0.0.0" if classroom else "127.0.0.1"),
        port=port,
        open_browser=not no_open,
        classroom=classroom,
    )
    serve_page(registry, settings, censuses, Films(models))


@app.command()
def look(
    text: Annotated[
        str | None, typer.Argument(help="The text; for picture or sound models, a .png, .jpg or .wav file.")
    ] = None,
    model: options.Model = None,
    head: Annotated[str | None, typer.Option("--head", help="Draw this head's pattern, for example 3.5.")] = None,
    query: Annotated[
        str | None,
        typer.Option(help="The query position in a picture: its label or number, for example CLS, 'patch 3,4' or -1."),
    ] = None,
    save: Annotated[
        list[Path] | None,
        typer.Option(
            help="Save a figure (.svg, .pdf, .png) of --head or of every head, the microscope as one page (.html), "
            "or the activations (.headscope). Can be repeated."
        ),
    ] = None,
    question: options.Classes = None,
    written: Annotated[
        str | None,
        typer.Option("--written", "-w", help="The decoder's text so far, for encoder-decoder models."),
    ] = None,
    capture: Capture = None,
    name: CaptureName = None,
    as_json: options.AsJson = False,
    brief: options.Brief = False,
) -> None:
    """Show one text's next-token predictions and the highest-scoring heads for each question.

    Example: headscope look "The horse crossed the road because it was tired." --head 3.5
    """
    from headscope import load, open_look
    from headscope.app import json_output, terminal

    rules = _read_classes(question or [])
    if [text is None] * 2 != [capture is not None, name is not None]:
        raise typer.BadParameter("give a text, or --capture and --name: the folder and the name of a served request")
    given = _text_or_media(text or "")
    for file in save or ():
        options.refuse_overwriting(file, [given] if isinstance(given, Path) else [])
    with nullcontext() if capture and model is None else load(model) as scope:
        if capture or scope is None:
            seen = open_look(cast(Path, capture), scope, name=name)
        else:
            seen = scope.look(given if written is None else (given, written))
        for file in save or ():
            _save(seen, file, head, query)
        if brief:
            show_json(seen.to_short(head))
            return
        answers = {rule.name: seen.ask(rule) for rule in rules}
        if as_json:
            show_json(json_output.look_json(seen, head) | json_output.questions_json(answers))
            return
        show(terminal.summary(seen) if head is None else _drawn(seen, head, query, saved=bool(save)))
        for name, masses in answers.items():
            show(terminal.question_row(name, masses))
        for file in save or ():
            say(f"saved {file}")


def _save(seen: Look, file: Path, head: str | None, query: str | None) -> None:
    """Save what the file's suffix names."""
    if file.suffix.lower() == ".html":
        seen.save_html(file)
    elif file.suffix.lower() == ".headscope":
        seen.save(file)
    else:
        seen.plot(head, query).save(file)


def _read_classes(entries: list[str]) -> list[LabelRule]:
    """Read the classes of --class; their names differ."""
    from headscope.errors import InputError
    from headscope.heads.questions.label_rules import read_class

    rules = [read_class(entry) for entry in entries]
    names = [rule.name for rule in rules]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"there is already a class named {repeated[0]!r}; choose another name")
    return rules


def _drawn(seen: Look, head: str, query: str | None, *, saved: bool) -> RenderableType:
    """A head over its picture, or its pattern; the summary where that does not fit a terminal and a file has it."""
    from headscope.app import terminal
    from headscope.app.pages.media.shown import head_map, map_grid
    from headscope.errors import InputError

    try:
        if map_grid(seen, seen.shape.find(head).site) is not None:
            return terminal.patch_map(head_map(seen, head, query))
        return terminal.pattern(seen, head)
    except InputError:
        if not saved:
            raise
        return terminal.summary(seen)


@app.command()
def ablate(
    text: options.Text,
    head: options.Heads,
    model: options.Model = None,
    how: Annotated[
        str, typer.Option(help="What replaces the heads' outputs: zero, mean, or resample (drawn from --texts).")
    ] = "zero",
    texts: options.Texts = None,
    as_json: options.AsJson = False,
    brief: options.Brief = False,
) -> None:
    """Ablate heads: show the next-token predictions with and without them.

    Example: headscope ablate "Mary and John went out; John gave a book to" --head 5.6 --how resample --texts book.txt
    """
    from headscope import load
    from headscope.app import json_output, terminal
    from headscope.errors import InputError
    from headscope.heads.edits.ablate import ablate as ablate_heads
    from headscope.scope import ablation_beside_random

    if texts and how == "zero":
        raise InputError("--texts is for --how mean and --how resample; zero needs none")
    if how == "resample" and not texts:
        raise InputError("--how resample draws the heads' outputs on other texts; name them, as in --texts book.txt")
    change = partial(ablate_heads, how=cast(Any, how), texts=options.read_texts(texts or [], 16, 1000))
    with load(model) as scope:
        before = scope.look(text)
        if brief:
            show_json(ablation_beside_random(scope, before, head, before.predictions(count=1)[0].token.id, change))
            return
        with scope.edit(change(*head)):
            after = scope.look(text)
        found = json_output.ablation_json(before, after, head)
    if as_json:
        show_json(found)
    else:
        show(terminal.ablation_table(found))


@app.command()
def patch(
    clean: Annotated[str, typer.Argument(help="The text that the values are taken from.")],
    corrupted: Annotated[str, typer.Argument(help="The text that they are put into, with as many tokens.")],
    token: Annotated[str, typer.Option(help="The right next token of the clean text, with its leading space.")],
    minus: Annotated[str, typer.Option(help="The wrong next token.")],
    model: options.Model = None,
    at: Annotated[
        str, typer.Option(help="What is patched: z of every head, or resid_pre, mlp_out, … by position.")
    ] = "z",
    how: Annotated[str, typer.Option(help="exact, or attribution: estimate all effects from one gradient.")] = "exact",
    save: Annotated[Path | None, typer.Option(help="Save the map as .svg, .pdf or .png.")] = None,
    count: options.Count = None,
    as_json: options.AsJson = False,
) -> None:
    """Patch activations of a clean text into a corrupted one, and measure how far the prediction comes back.

    Example: headscope patch "Mary and John met. John saw" "Mary and John met. Mary saw" --token " Mary" --minus " John"
    """
    from headscope import load

    by = cast(Any, "head" if at == "z" else "position")
    with load(model) as scope:
        found = scope.patching(clean, corrupted, (token, minus), cast(Any, at), by, cast(Any, how))
    if save is not None:
        found.plot().save(save)
    if as_json:
        ends = {"clean": found.clean, "corrupted": found.corrupted, "estimated": found.estimated}
        show_json({"at": at, "by": found.by, **ends, "effects": found.ranked_rows()[:count]})
    else:
        say(found.listed(count or options.ROWS))


@app.command()
def generate(
    text: Annotated[str, typer.Argument(help="The prompt.")],
    model: options.Model = None,
    tokens: Annotated[int, typer.Option("--tokens", "-n", help="Number of tokens to generate.")] = 40,
    temperature: Annotated[float, typer.Option(help="0 is greedy; 1 is the model's own distribution.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Keep this many of the most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Keep the most likely tokens that add up to this probability.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="The same seed gives the same text.")] = 0,
    head: Annotated[list[str] | None, typer.Option("--head", help="Ablate this head. Can be repeated.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Generate text, optionally with heads ablated.

    Example: headscope generate "Alice was" --temperature 0.7 --head 5.1
    """
    from headscope import load
    from headscope.app import json_output
    from headscope.heads.edits.ablate import ablate as ablate_heads
    from headscope.heads.look.sampling import Sampling

    with load(model) as scope, scope.edit(*([ablate_heads(*head)] if head else [])):
        cuts = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        made = scope.generate(text, tokens, cuts)
    if as_json:
        show_json(json_output.generated_json(text, made))
    else:
        say(text + made.text)


def _text_or_media(text: str) -> str | Path:
    """A text, or the path of a picture or sound."""
    path = Path(text)
    return path if path.suffix.lower() in MEDIA and os.path.isfile(path) else text  # noqa: PTH113 - never an error
