"""Commands that teach: card, learn (lessons, build, worksheet, exercise), train, explain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headscope.cli import INTERRUPTED
from headscope.cli.options import LARGEST_SEED, PLAIN, AsJson, Corpus, Grouped, app, say, show, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headscope.lab.teach.lessons import Lesson

EXPLAINED = Path(__file__).parent.parent / "explained"


@app.command()
def card(
    names: Annotated[list[str] | None, typer.Argument(help="Built-in names, config.json files or folders.")] = None,
    d_model: Annotated[int | None, typer.Option(help="Count a model of this width (with --heads).")] = None,
    heads: Annotated[int | None, typer.Option(help="Number of heads of that model.")] = None,
    kv_heads: Annotated[int | None, typer.Option(help="Number of its KV heads [default: the number of heads].")] = None,
    length: Annotated[int | None, typer.Option(help="Count the KV cache at this many tokens.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read model cards: heads, KV heads, parameters and KV cache.

    Example: headscope card gpt3-175b phi-4-mini
    """
    from headscope.errors import InputError
    from headscope.lab.cards import card, card_text

    found = [card.card(name) for name in names or []]
    if d_model is not None and heads is not None:
        found.append(card.from_sizes(d_model, heads, n_kv_heads=kv_heads))
    elif (d_model, heads, kv_heads) != (None, None, None):
        raise InputError("a card made from sizes needs both --d-model and --heads")
    if as_json:
        from headscope.app.pages.cards import shown

        counted = [shown(one, one, length).model_dump() for one in found]
        show_json({"cards": counted or sorted(card.built_in())})
    elif found:
        card_text.show(found, length)
    else:
        say("cards: " + ", ".join(sorted(card.built_in())))
        show(card_text.render_head_sizes())


class _Learn(Grouped):
    """``headscope learn`` lists the lessons and ``headscope learn 3`` prints one: both are ``learn lesson``."""

    groups = {"Commands": ("lesson", "build", "worksheet", "exercise")}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] and args[0] in (*self.commands, "-h", "--help")
        return super().parse_args(ctx, args if named else ["lesson", *args])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        super().format_commands(ctx, formatter)
        with formatter.section("A lesson's arguments and options"):
            formatter.write_dl(filter(None, (each.get_help_record(ctx) for each in self.commands["lesson"].params)))


course = typer.Typer(cls=_Learn, subcommand_metavar="[WHICH | COMMAND] [ARGS]...", **PLAIN)
app.add_typer(course, name="learn")


@course.callback()
def learn() -> None:
    """Read a lesson (headscope learn 3), build attention, or print a worksheet.

    Example: headscope learn 3, then headscope learn 3 --answer b
    """


@course.command()
def lesson(
    which: Annotated[
        str | None,
        typer.Argument(help="A lesson's number or name, or “puzzle” [default: print the list of lessons]."),
    ] = None,
    question: Annotated[int, typer.Option(help="The number of the question that --answer answers.")] = 1,
    answer: Annotated[
        str | None, typer.Option(help="Your answer: a letter, a number, or for a puzzle 0.2=itself.")
    ] = None,
    attempt: Annotated[int, typer.Option(help="Which attempt this is: a wrong first one gets a hint.")] = 1,
    code: Annotated[
        bool, typer.Option("--code", help="Print only the lesson's editable code, so you can save it to a file.")
    ] = False,
    level: Annotated[int | None, typer.Option(help="Level of the puzzle, 1 to 10 [default: this week's].")] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Each seed gives a different puzzle.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print a short lesson: it runs its code, and has code to change and questions. Or set a puzzle.

    A puzzle is a small model. Some of its heads have a job: find which head does what, and say it with --answer.

    Example: headscope learn 3, then headscope learn 3 --answer b, or headscope learn puzzle --level 2 --seed 7
    """
    from headscope.errors import InputError
    from headscope.lab.teach import lessons

    if which == "puzzle":
        _puzzle(level, seed, answer, as_json)
        return
    if which is None:
        if answer is not None:
            raise InputError(f"--answer {answer}: name the lesson too, as in headscope learn 3 --answer {answer}")
        listed = lessons.contents()
        if as_json:
            show_json({"lessons": [{"number": n, "name": name, "title": title} for n, name, title in listed]})
            return
        for number, name, title in listed:
            say(f"{number:>3}  {title}  ({name})")
        return
    found = lessons.lesson(which)
    if answer is not None:
        marked = found.check(question, answer, attempt)
        word = "Right." if marked.right else "A hint:" if marked.kind == "hint" else "Not quite."
        show_json(asdict(marked)) if as_json else say(f"{word} {marked.says}")
    elif code:
        block = found.to_dict()["block"]["code"]
        show_json({"code": block}) if as_json else say(block, nl=False)
    elif as_json:
        show_json(found.to_dict())
    else:
        show(_lesson_page(found))


@course.command()
def build(
    d_model: Annotated[int, typer.Option(help="Width of the model.")] = 768,
    heads: Annotated[int, typer.Option(help="Number of heads.")] = 12,
    kv_heads: Annotated[int | None, typer.Option(help="Key/value heads, shared in groups.")] = None,
) -> None:
    """Build multi-head attention from one head to many, with the shape at each step.

    Example: headscope learn build --d-model 768 --heads 12
    """
    from headscope.attention.build import build as build_attention

    raise typer.Exit(build_attention(d_model, heads, kv_heads))


@course.command()
def worksheet(
    seed: Annotated[int, typer.Option(help="Each seed gives different numbers.")] = 0,
    solved: Annotated[bool, typer.Option("--solved", help="Also print the answers and how to get them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print six tasks on attention for paper, in Markdown, with new numbers for each seed.

    Example: headscope learn worksheet --seed 7 --solved
    """
    from headscope.lab.teach.worksheet import worksheet

    sheet = worksheet(seed)
    show_json(asdict(sheet.shown(solved=solved))) if as_json else say(sheet.markdown(solved=solved), nl=False)


@course.command()
def exercise(
    path: Annotated[Path, typer.Argument(help="Your file: created if it does not exist, checked if it does.")] = Path(
        "attention_exercise.py"
    ),
    as_json: AsJson = False,
) -> None:
    """Build multi-head attention in a file with gaps: one head, a loop over heads, and all heads at once.

    The first call writes the file; each later one runs it and checks every gap against the reference.

    Fill a gap of the file, then run the command again.

    Example: headscope learn exercise
    """
    from headscope.lab.teach.course.coding_exercise import check_exercise, write_exercise

    if not path.exists():
        write_exercise(path)
        done = f"wrote {path}: fill its first gap, then run headscope learn exercise {path} again"
        show_json({"written": str(path)}) if as_json else typer.echo(done)
        return
    checked = check_exercise(path)
    if as_json:
        show_json({"gaps": [asdict(gap) for gap in checked]})
    else:
        marks = {"right": "right", "wrong": "not yet", "empty": "gap"}
        for gap in checked:
            typer.echo(f"{marks[gap.state]:>8}  {gap.name:12}  {gap.says}")
    raise typer.Exit(0 if all(gap.state == "right" for gap in checked) else 1)


@app.command()
def train(
    corpus: Corpus,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the run; a stopped run resumes there.")
    ] = Path("runs/model"),
    heads: Annotated[int, typer.Option(help="Heads in each layer.")] = 4,
    d_model: Annotated[int, typer.Option(help="Width of the model.")] = 128,
    layers: Annotated[int, typer.Option(help="Layers.")] = 4,
    context: Annotated[int, typer.Option(help="Context length in tokens.")] = 256,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed trains the same model.")] = 0,
) -> None:
    """Train a small GPT on your own text, and record a film of its heads.

    Example: headscope train --corpus book.txt --heads 4 --d-model 128
    """
    from headscope.lab.train.options import TrainingOptions
    from headscope.lab.train.text_files import TextFile
    from headscope.lab.train.training import train as train_model

    options = TrainingOptions(d_model=d_model, n_layers=layers, n_heads=heads, context=context, steps=steps, seed=seed)
    trained = train_model([TextFile(Path(path)) for path in corpus], out, options)
    word = "finished" if trained.finished else "stopped; the same command resumes"
    say(f"{word} at step {trained.step}. Look at it with: headscope serve {trained.folder}")
    raise typer.Exit(0 if trained.finished else INTERRUPTED)


@app.command()
def explain(
    kind: Annotated[
        str | None, typer.Argument(help="The kind of error, for example ShapeError [default: list all kinds].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a kind of error and how to fix it, with examples.

    Example: headscope explain ShapeError
    """
    from rich.markdown import Markdown

    from headscope.errors import InputError

    pages = {page.stem: page for page in sorted(EXPLAINED.glob("*.md"))}
    asked = "headscopeerror" if kind is None else kind.lower()
    found = next((name for name in pages if asked in (name.lower(), name.removesuffix("Error").lower())), None)
    if found is None:
        raise InputError(f"there is no error called {kind!r}; there are {', '.join(pages)}")
    text = pages[found].read_text(encoding="utf-8")
    show_json({"kind": found, "page": text}) if as_json else show(Markdown(text))


def _puzzle(level: int | None, seed: int, answer: str | None, as_json: bool) -> None:
    """Print a puzzle, or say whether answers to it are right."""
    import datetime

    from headscope.lab.teach import puzzle as puzzles

    found = puzzles.of_week(datetime.date.today()) if level is None else puzzles.puzzle(level, seed)
    pairs = [pair.partition("=") for pair in (answer or "").split(";") if pair.strip()]
    told = found.mark({head.strip(): job.strip() for head, _, job in pairs})
    if as_json:
        about = {"name": found.name, "level": found.level, "text": found.text, "jobs": len(found.solution)}
        show_json({**about, "choices": dict(found.choices), "told": [vars(one) for one in told]})
    elif told:
        say("\n".join(one.says for one in told))
    else:
        jobs = "\n".join(f"  {job:22} {says}" for job, says in found.choices.items())
        say(
            f"Level {found.level}. {len(found.solution)} of {len(found.compiled.truth)} heads have a job; the others "
            f"are random. The jobs, and what a head with that job attends to:\n{jobs}\n"
            f"Look at the heads: headscope serve {found.name}, and type:\n {found.text}\n"
            f"Then say what you found: headscope learn puzzle --level {found.level} --seed {found.seed} "
            "--answer 0.2=itself"
        )


def _lesson_page(lesson: Lesson) -> RenderableType:
    """A lesson: idea, code, output, result, something to try, questions. A figure is its caption."""
    from rich.markdown import Markdown

    shown, asked = lesson.to_dict(), []
    for number, question in enumerate(lesson.questions, start=1):
        options = [] if question.numeric else [f"   {chr(96 + i)}) {o.text}" for i, o in enumerate(question.options, 1)]
        asked.append("\n".join([f"**{number}.** {question.text}", "", *options]))
    text = [
        f"# {lesson.number}. {lesson.title}",
        shown["idea"],
        f"```python\n{lesson.code}```",
        f"```\n{lesson.output}\n```",
    ]
    attempt = ["**Try it.** " + shown["try_it"]]
    if shown["block"]:
        own = f"headscope learn {lesson.number} --code > try.py"
        attempt += [
            f"```python\n{shown['block']['code']}```",
            f"`{own}` writes it to a file; `python try.py` runs it.",
        ]
    return Markdown("\n\n".join([*text, shown["computed"], *attempt, *asked]))
