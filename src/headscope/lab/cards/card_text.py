"""Print model cards in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headscope.lab.cards.card import USUAL_LENGTH, Card, head_sizes, notes


def size(count: int | float) -> str:
    """Format bytes: 128 KiB, 16 GiB."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def _big(count: int | float | None) -> str:
    """Format a count: 124 M, 8.03 B."""
    if count is None:
        return "not known"
    for unit, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"
    return f"{count:.0f}"


def render(card: Card, length: int | None = None) -> RenderableType:
    """One card: sizes, parameters, KV cache, FLOPs, and what the numbers mean."""
    length = card.length if length is None else length
    model = card.model
    kind = {"MHA": "every head has its own", "MQA": "all share one", "MLA": "one latent vector for all"}.get(
        model.kind, f"{model.n_heads // model.n_kv_heads} heads share one"
    )
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in (
        ("layers", str(model.n_layers)),
        ("width (d_model)", str(model.d_model)),
        ("query heads per layer", str(model.n_heads)),
        ("KV heads per layer", f"{model.n_kv_heads}  {model.kind}: {kind}"),
        ("numbers per head (d_head)", str(model.d_head)),
        ("heads × layers", f"{model.n_heads} × {model.attention_layers} = {card.heads_in_all:,}"),
        ("parameters", _big(card.parameters.total)),
        ("KV cache per token", f"{size(card.kv_bytes(1))} in fp16, {size(card.kv_bytes(1, 'fp8'))} in fp8"),
        (
            f"KV cache at {length:,}",
            f"{size(card.kv_bytes(length))} in fp16, {size(card.kv_bytes(length, 'fp8'))} in fp8",
        ),
    ):
        facts.add_row(Text(name, style="dim"), value)
    lines = [Text(f"– {note}") for note in notes(card)]
    source = Text(f"source: {card.source}", style="dim")
    parts = _shares("Where the parameters are", "parameters", card.parameters.parts, 1)
    work = _shares(f"Work for the next token after {length:,}", "FLOP", card.flops(length), 0)
    return Group(Text(card.title, style="bold"), facts, parts, work, *lines, source)


def _shares(title: str, counted: str, counts: Mapping[str, int], digits: int) -> Table:
    """A table of parts, their counts, and their shares of the sum."""
    table = Table(box=None, title=title, title_justify="left", padding=(0, 2, 0, 0))
    table.add_column("part")
    for name in (counted, "share"):
        table.add_column(name, justify="right")
    for part, count in counts.items():
        table.add_row(part, _big(count), f"{100 * count / sum(counts.values()):.{digits}f} %")
    return table


def _side_by_side(cards: Sequence[Card], length: int | None = None) -> RenderableType:
    """Several cards, one column each; their caches at one length."""
    length = USUAL_LENGTH if length is None else length
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for card in cards:
        table.add_column(card.title, justify="right")
    rows: dict[str, Callable[[Card], str]] = {
        "layers": lambda card: str(card.model.n_layers),
        "d_model": lambda card: str(card.model.d_model),
        "query heads": lambda card: str(card.model.n_heads),
        "KV heads": lambda card: f"{card.model.n_kv_heads} {card.model.kind}",
        "d_head": lambda card: str(card.model.d_head),
        "parameters": lambda card: _big(card.parameters.total),
        "attention": lambda card: _big(card.parameters.attention),
        "KV cache per token, fp16": lambda card: size(card.kv_bytes(1)),
        f"KV cache at {length:,}, fp16": lambda card: size(card.kv_bytes(length)),
    }
    for name, value in rows.items():
        table.add_row(name, *(value(card) for card in cards))
    return table


def render_head_sizes() -> RenderableType:
    """The head sizes of the built-in models."""
    table = Table(box=None, title="Numbers per head in the built-in cards", title_justify="left", padding=(0, 2, 0, 0))
    table.add_column("d_head", justify="right")
    table.add_column("models", justify="right")
    table.add_column("")
    for d_head, names in head_sizes().items():
        table.add_row(str(d_head), str(len(names)), ", ".join(names[:5]) + (" …" if len(names) > 5 else ""))
    return table


def show(cards: Sequence[Card], length: int | None = None, console: Console | None = None) -> None:
    """Print one card in full, or several side by side."""
    console = console or Console()
    console.print(render(cards[0], length) if len(cards) == 1 else _side_by_side(cards, length))
