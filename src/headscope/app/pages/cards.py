"""Model cards as the page is told them. It is named or described: no path from a page is ever opened."""

from __future__ import annotations

from headscope.app.pages.schema_reading import (
    CardAnswer,
    CardLine,
    CardLines,
    CardRequest,
    HeadChoice,
    KVChoice,
    Part,
)
from headscope.errors import InputError
from headscope.lab.cards.card import Card, built_in, from_sizes, notes
from headscope.lab.cards.card import card as card_of
from headscope.lab.cards.config_reader import EXAMPLE, KEYS

SHORTEST, LONGEST = 1_024, 1_048_576
MOST_CHOICES = 24


def card_lines() -> CardLines:
    """Every built-in card on a line."""
    lines = []
    for name, card in built_in().items():
        model = card.model
        sizes = {size: getattr(model, size) for size in ("d_model", "n_layers", "n_heads", "n_kv_heads")}
        total = card.parameters.total
        lines.append(
            CardLine(name=name, title=card.title, attention=model.kind, **sizes, d_head=model.d_value, total=total)
        )
    return CardLines(cards=lines)


def read_card(asked: CardRequest) -> CardAnswer:
    """The card that was asked for, with other heads if those were asked for too."""
    found = _card(asked)
    card = found
    if asked.n_heads not in (None, found.model.n_heads) or asked.n_kv_heads not in (None, found.model.n_kv_heads):
        card = found.change(n_heads=asked.n_heads, n_kv_heads=asked.n_kv_heads)
    return _answer(card, found)


def _card(asked: CardRequest) -> Card:
    given = [part for part in (asked.name, asked.config, asked.sizes) if part is not None]
    if len(given) != 1:
        raise InputError(f"a card is read from a name, a config or sizes; this request has {len(given)} of them")
    if asked.sizes is not None:
        sizes = asked.sizes.model_dump()
        return from_sizes(sizes.pop("d_model"), sizes.pop("n_heads"), **sizes)
    if asked.config is not None:
        return _read_config(asked.config)
    if asked.name not in built_in():
        raise InputError(
            f"there is no card called {asked.name!r}; pick one of the {len(built_in())}, or paste a config"
        )
    return built_in()[asked.name]


def _read_config(text: str) -> Card:
    """A config as text. Anything else than an object could be taken for a file's name, and is refused here."""
    if not text.lstrip().startswith("{"):
        raise InputError(f"this is not a config.json: it does not begin with a brace; one looks like {EXAMPLE}")
    return card_of(text)


def _lit(card: Card, published: Card) -> dict[str, int]:
    """The fields of the config that say how many heads there are and how large, with their values now."""
    shown = {}
    for size in ("n_heads", "n_kv_heads", "d_head"):
        keys = [key for key in KEYS[size] if key in published.config]
        if keys or card is not published:
            shown[keys[0] if keys else KEYS[size][0]] = int(getattr(card.model, size))
    return shown


def _lengths(card: Card) -> list[int]:
    """Doubling from 1,024, with the model's own context among them."""
    doubling = [SHORTEST << power for power in range((LONGEST // SHORTEST).bit_length())]
    own = [card.model.context] if card.model.context else []
    return sorted({*doubling, *own})


def _answer(card: Card, published: Card) -> CardAnswer:
    model, parameters, lengths = card.model, card.parameters, _lengths(published)
    names = ("model_type", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_value", "context")
    experts = model.experts
    return CardAnswer(
        name=card.name,
        title=published.title,
        source=card.source,
        config=dict(published.config),
        lit=_lit(card, published),
        attention=model.kind,
        **{name: getattr(model, name) for name in names},
        windows=list(model.windows),
        experts=None if experts is None else f"{experts.used} of {experts.count}",
        heads_in_all=card.heads_in_all,
        parts=[Part(name=name, count=count) for name, count in parameters.parts.items()],
        attention_parameters=parameters.attention,
        total=parameters.total,
        active=None if parameters.unknown else sum(parameters.active.values()),
        exact=card.exact,
        changed=card is not published,
        published=HeadChoice(n_heads=published.model.n_heads, d_head=published.model.d_head),
        published_kv_heads=published.model.n_kv_heads,
        head_choices=[HeadChoice(**choice) for choice in published.head_choices()],
        lengths=lengths,
        token_bytes=card.kv_bytes(1),
        cache=[card.kv_bytes(length) for length in lengths],
        expanded=None if model.latent is None else [card.kv_bytes(length, expanded=True) for length in lengths],
        kv_choices=_kv_choices(card, lengths),
        work=[card.flops(length) for length in lengths],
        notes=notes(card),
    )


def _kv_choices(card: Card, lengths: list[int]) -> list[KVChoice]:
    if card.model.latent is not None:
        return []
    heads, own = card.model.n_heads, card.model.n_kv_heads
    counts = [count for count in range(heads, 0, -1) if heads % count == 0]
    if len(counts) > MOST_CHOICES:
        step = -(-len(counts) // MOST_CHOICES)
        counts = sorted({*counts[::step], own, 1}, reverse=True)
    made = [card.change(n_heads=heads, n_kv_heads=count) for count in counts]
    return [
        KVChoice(
            n_kv_heads=each.model.n_kv_heads,
            attention=each.model.kind,
            total=each.parameters.total,
            cache=[each.kv_bytes(length) for length in lengths],
        )
        for each in made
    ]
