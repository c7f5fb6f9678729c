"""Text of a lesson with live numbers and figures.

``{{name:.2f}}`` in a text is a variable of the lesson's Python block. For the terminal it is filled in. For the page
it becomes ``{{name:.2f=0.69}}``, so that a figure that changes ``name`` changes the text too. The form ``w`` writes a
weight as ``.69``, the form ``head|heads`` a count with its word: ``1 head``, ``8 heads``. A figure stands between
``::: figure kind name prop=name`` and ``:::``; the names are variables that it gets, the lines between are its caption,
which is also what a terminal shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headscope.errors import InputError

_NAMED = re.compile(r"\{\{([^{}]+)\}\}")
_LIVE = re.compile(r"\{\{([^{}:=]+)(?::([^{}=]*))?=([^{}]*)\}\}")
_FIGURE = re.compile(r"^::: figure ([\w-]+)((?: [\w=]+)*)\n(.*?)^:::$\n?", flags=re.M | re.S)
PLACE = "[[figure {}]]"
_PLACE = re.compile(r"^\[\[figure (\d+)\]\]$", flags=re.M)


@dataclass(frozen=True)
class Figure:
    """A figure of the page inside a lesson: which component, the numbers it starts from, its caption."""

    kind: str
    props: dict[str, Any]
    caption: str


def _number(value: Any, form: str) -> str:
    """A value in a format of Python's, as a weight (``w``: .69, 1, 0), or with its word (``head|heads``: 1 head)."""
    if "|" in form:
        one, several = form.split("|")
        return f"{value} {one if value == 1 else several}"
    if form != "w":
        text = format(value, form)
        return text.replace("-", "−") if isinstance(value, (int, float)) and not form.endswith("e") else text
    text = f"{abs(float(value)):.2f}"
    text = "1" if text == "1.00" else "0" if text == "0.00" else text.removeprefix("0")
    return f"−{text}" if float(value) < 0 and text != "0" else text


def live(text: str, names: Mapping[str, Any]) -> str:
    """Add to every ``{{name:format}}`` what it is now."""

    def value(found: re.Match[str]) -> str:
        name, _, form = found[1].partition(":")
        if name not in names:
            raise InputError(f"the text uses {name!r}, which its code does not compute")
        shown = _number(names[name], form)
        return "{{" + found[1] + "=" + shown + "}}"

    return _NAMED.sub(value, text)


def plain(text: str) -> str:
    """Text with its numbers filled in."""
    return _LIVE.sub(r"\3", text)


def with_captions(text: str, figures: list[Figure]) -> str:
    """Text for a terminal: a figure is its caption."""

    def caption(found: re.Match[str]) -> str:
        return "\n".join(f"> {line}" for line in plain(figures[int(found[1])].caption).splitlines())

    return _PLACE.sub(caption, text)


def take_figures(text: str, names: Mapping[str, Any], start: int = 0) -> tuple[str, list[Figure]]:
    """Replace figures by their places, and give each the variables it names."""
    figures: list[Figure] = []

    def place(found: re.Match[str]) -> str:
        kind, caption = found[1], found[3].strip()
        wanted = {prop: name or prop for prop, _, name in (each.partition("=") for each in found[2].split())}
        missing = [name for name in wanted.values() if name not in names]
        if missing:
            raise InputError(f"the figure {kind!r} uses {missing[0]!r}, which its code does not compute")
        figures.append(Figure(kind, {prop: _json(names[name]) for prop, name in wanted.items()}, caption))
        return PLACE.format(start + len(figures) - 1) + "\n"

    return _FIGURE.sub(place, text), figures


def _json(value: Any) -> Any:
    """Tensors, tuples and arrays as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(each) for each in value]
    return value
