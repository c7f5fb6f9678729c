"""A card in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headscope.lab.cards.card import Card, head_sizes, notes


def size(count: int | float) -> str:
    """Bytes as a person says them: 128 KiB, 16 GiB."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def big(count: int | float | None) -> str:
    """A count as a person says it: 124 M, 8.03 B."""
    if count is None:
        return "not known"
    for unit, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"
    return f"{count:.0f}"


def render(card: Card, length: int | None = None) -> RenderableType:
    """One card: facts, parameters, cache, work, and what the numbers mean."""
    length = card.length if length is None else length
    anatomy = card.anatomy
    kind = {"MHA": "every head has its own", "MQA": "all share one", "MLA": "one latent vector for all"}.get(
        anatomy.kind, f"{anatomy.n_heads // anatomy.n_kv_heads} heads share one"
    )
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in (
        ("layers", str(anatomy.n_layers)),
        ("width (d_model)", str(anatomy.d_model)),
        ("query heads a layer", str(anatomy.n_heads)),
        ("KV heads a layer", f"{anatomy.n_kv_heads}  {anatomy.kind}: {kind}"),
        ("numbers a head (d_head)", str(anatomy.d_head)),
        ("heads × layers", f"{anatomy.n_heads} × {anatomy.attention_layers} = {card.heads_in_all:,}"),
        ("parameters", big(card.parameters.total)),
        ("KV cache a token", f"{size(card.kv_bytes(1))} in fp16, {size(card.kv_bytes(1, 'fp8'))} in fp8"),
        (
            f"KV cache at {length:,}",
            f"{size(card.kv_bytes(length))} in fp16, {size(card.kv_bytes(length, 'fp8'))} in fp8",
        ),
    ):
        facts.add_row(Text(name, style="dim"), value)
    said = [Text(f"– {note}") for note in notes(card)]
    source = Text(f"source: {card.source}", style="dim")
    return Group(Text(card.title, style="bold"), facts, _parts(card), _work(card, length), *said, source)


def _parts(card: Card) -> Table:
    table = Table(box=None, title="Where the parameters are", title_justify="left", padding=(0, 2, 0, 0))
    table.add_column("part")
    table.add_column("parameters", justify="right")
    table.add_column("share", justify="right")
    counted = sum(card.parameters.parts.values())
    for part, count in card.parameters.parts.items():
        table.add_row(part, big(count), f"{100 * count / counted:.1f} %")
    return table


def _work(card: Card, length: int) -> Table:
    flops = card.flops(length)
    table = Table(
        box=None, title=f"Work for the next token after {length:,}", title_justify="left", padding=(0, 2, 0, 0)
    )
    table.add_column("part")
    table.add_column("FLOP", justify="right")
    table.add_column("share", justify="right")
    for part, count in flops.items():
        table.add_row(part, big(count), f"{100 * count / sum(flops.values()):.0f} %")
    return table


def render_side_by_side(cards: Sequence[Card]) -> RenderableType:
    """Several cards, a column each."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for card in cards:
        table.add_column(card.title, justify="right")
    rows: dict[str, Callable[[Card], str]] = {
        "layers": lambda card: str(card.anatomy.n_layers),
        "d_model": lambda card: str(card.anatomy.d_model),
        "query heads": lambda card: str(card.anatomy.n_heads),
        "KV heads": lambda card: f"{card.anatomy.n_kv_heads} {card.anatomy.kind}",
        "d_head": lambda card: str(card.anatomy.d_head),
        "parameters": lambda card: big(card.parameters.total),
        "attention": lambda card: big(card.parameters.attention),
        "KV cache a token, fp16": lambda card: size(card.kv_bytes(1)),
        "KV cache at 8,192, fp16": lambda card: size(card.kv_bytes(8192)),
    }
    for name, value in rows.items():
        table.add_row(name, *(value(card) for card in cards))
    return table


def render_head_sizes() -> RenderableType:
    """Where the built-in models cluster."""
    table = Table(box=None, title="Numbers a head in the built-in cards", title_justify="left", padding=(0, 2, 0, 0))
    table.add_column("d_head", justify="right")
    table.add_column("models", justify="right")
    table.add_column("")
    for d_head, names in head_sizes().items():
        table.add_row(str(d_head), str(len(names)), ", ".join(names[:5]) + (" …" if len(names) > 5 else ""))
    return table


def show(cards: Sequence[Card], length: int | None = None, console: Console | None = None) -> None:
    """Print one card in full, or several side by side."""
    console = console or Console()
    console.print(render(cards[0], length) if len(cards) == 1 else render_side_by_side(cards))
