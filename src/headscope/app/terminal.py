"""Render looks, patterns, tables, lessons and progress for the terminal, with rich."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headscope.errors import InputError
from headscope.heads.figure import shown as visible
from headscope.heads.figure import weight_colour
from headscope.heads.questions.standard_questions import STANDARD
from headscope.heads.short import top_heads
from headscope.names import Head

if TYPE_CHECKING:
    from headscope.app.pages.media.shown import HeadMap
    from headscope.heads.look.look import Look

WIDEST = 48  # tokens a terminal can show side by side
SHADES = " ░▒▓█"


def summary(look: Look) -> RenderableType:
    """A look in short: its tokens, the next tokens, and the top heads of each standard question."""
    parts: list[RenderableType] = [Text(repr(look), style="bold"), _token_row(look)]
    if look.shape.vocabulary is not None:
        parts.append(_prediction_row(look))
    elif (classes := _class_row(look)) is not None:
        parts.append(classes)
    parts.append(_scores_table(look))
    return Group(*parts)


def _token_row(look: Look) -> Text:
    row = Text("tokens  ")
    for index, token in enumerate(look.tokens[:WIDEST]):
        row.append(visible(token.text), style="underline" if index % 2 else "")
        row.append(" ")
    if len(look.tokens) > WIDEST:
        row.append(f"… and {len(look.tokens) - WIDEST} more")
    return row


def _prediction_row(look: Look) -> Text:
    row = Text("next    ")
    for prediction in look.predictions(count=5):
        row.append(visible(prediction.token.text), style="italic")
        row.append(f" {percent(prediction.probability)}   ")
    return row


def _class_row(look: Look) -> Text | None:
    """The likeliest classes; None for a model that has none."""
    try:
        found = look.classes()
    except InputError:
        return None
    row = Text("class   ")
    for each in found:
        row.append(each.name, style="italic")
        row.append(f" {percent(each.probability)}   ")
    return row


def _scores_table(look: Look, count: int = 3) -> Table:
    """The heads with the highest mean mass on each standard question."""
    table = Table("question", "heads with most of their attention there (mean over this text)", box=None)
    found = top_heads(look, count)
    for name, ranked in found.items():
        table.add_row(name, "   ".join(f"{head} {share(value)}" for head, value in ranked))
    for name in [name for name in STANDARD if name not in found]:
        table.add_row(name, "no row of this text can answer it")
    return table


def question_row(name: str, masses: Mapping[Head, float], count: int = 3) -> Text:
    """The heads with the highest mean mass on the user's own question."""
    ranked = sorted(masses.items(), key=lambda entry: -entry[1])[:count]
    listed = "   ".join(f"{head} {share(mass)}" for head, mass in ranked)
    return Text(f"{name}: {listed or 'no row of this text can answer it'}")


def pattern(look: Look, head: str) -> RenderableType:
    """One head's pattern as coloured cells, one row per token, darker for more weight."""
    weights = look.pattern(head)
    n_query, n_key = weights.shape
    if n_query > WIDEST or n_key > WIDEST:
        raise InputError(
            f"a pattern of {n_query}×{n_key} does not fit a terminal ({WIDEST} tokens at most); use --save or the page"
        )
    causal = n_query == n_key and not bool(weights.triu(1).any())
    names = [visible(token.text) for token in look.query_tokens(Head.parse(head).site)]
    lines = [Text(f"head {head}", style="bold")]
    for index in range(n_query):
        line = Text()
        for key in range(index + 1 if causal else n_key):
            value = float(weights[index, key])
            red, green, blue = weight_colour(value)
            ink = "white" if value > 0.2 else "black"
            label = share(value)[:3].rjust(3) if value >= 0.1 else "   "
            line.append(label, style=f"{ink} on rgb({red},{green},{blue})")
        lines.append(line.append(f" {names[index] if index < len(names) else index}"))
    return Group(*lines)


def patch_map(drawn: HeadMap) -> RenderableType:
    """What a query reads of a picture, one cell per patch; the darkest is the patch that is read most."""
    rows, columns = drawn.weights.shape
    if columns > WIDEST:
        raise InputError(f"a picture of {rows}×{columns} patches does not fit a terminal; use --save or the page")
    top = max(float(drawn.weights.max()), 1e-12)
    who = "the mean over all queries" if drawn.query == "mean" else visible(drawn.query)
    lines = [Text(f"head {drawn.head}: what {who} reads of the picture", style="bold")]
    for row in drawn.weights.tolist():
        line = Text()
        for value in row:
            red, green, blue = weight_colour(value / top)
            shade = SHADES[min(int((value / top) ** 0.5 * len(SHADES)), len(SHADES) - 1)]  # for output without colour
            line.append(2 * shade, style=f"rgb({red},{green},{blue}) on rgb({red},{green},{blue})")
        lines.append(line)
    darkest = f"darkest {top:.3f}; {share(drawn.outside)} lies outside the picture; {visible(drawn.sink)} is read most"
    return Group(*lines, Text(darkest))


def ablation_table(change: Mapping[str, Any]) -> Table:
    """The next token with and without some heads."""
    title = f"Without {', '.join(change['heads'])}: KL divergence {change['kl_nats']:.3f} nats"
    table = Table("next token", "unchanged", "without", box=None, title=title, title_justify="left")
    for entry in change["next"]:
        table.add_row(visible(entry["token"]), percent(entry["with"]), percent(entry["without"]))
    return table


def share(value: float) -> str:
    """A weight without its leading zero: .69, 1.0."""
    return f"{value:.2f}".removeprefix("0") if value < 0.995 else "1.0"


def percent(value: float) -> str:
    return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.1f}%"
