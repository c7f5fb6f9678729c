"""A lesson in a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from headscope.lab.lessons import Lesson, contents


def render(lesson: Lesson) -> RenderableType:
    """The whole lesson, questions without their answers."""
    asked: list[RenderableType] = []
    for number, question in enumerate(lesson.questions, start=1):
        asked.append(Text(f"\n{number}. {question.text}", style="bold"))
        if not question.numeric:
            letters = "abcdefgh"
            asked += [Text(f"   {letters[place]}) {option.text}") for place, option in enumerate(question.options)]
    return Group(
        Text(f"{lesson.number}. {lesson.title}\n", style="bold"),
        Markdown(lesson.idea),
        Text(),
        Syntax(lesson.code.rstrip(), "python", background_color="default"),
        Panel(lesson.output, title="it prints", title_align="left", border_style="dim"),
        Markdown(lesson.computed),
        Text("\nTry it", style="bold"),
        Markdown(lesson.try_it),
        *asked,
    )


def render_contents() -> RenderableType:
    return Group(*(Text(f"{number:>3}  {title}") for number, _, title in contents()))


def show(lesson: Lesson, console: Console | None = None) -> None:
    (console or Console()).print(render(lesson))
