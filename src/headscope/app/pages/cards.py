"""The model cards page: sizes, parameters, KV cache and FLOPs. No path from a request is ever opened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from headscope.app.pages.schema import Request, Response
from headscope.errors import InputError
from headscope.lab.cards.card import Card, built_in, from_sizes, notes
from headscope.lab.cards.card import card as card_of
from headscope.lab.cards.config_reader import EXAMPLE, KEYS

SHORTEST, LONGEST = 1_024, 1_048_576
MOST_CHOICES = 24
MAX_CONFIG = 200_000

Size = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Sizes(Request):
    """A model by its bare sizes, built like a Llama."""

    d_model: Size
    n_heads: Size
    n_kv_heads: Size | None = None
    d_head: Size | None = None
    n_layers: Size = 1
    d_ff: Size | None = None
    vocabulary: Size | None = None


class CardRequest(Request):
    """One of a name, a config or sizes; then other numbers of heads or KV heads, to see what changes."""

    name: Annotated[str, Field(max_length=200)] | None = None
    config: Annotated[str, Field(max_length=MAX_CONFIG)] | None = None
    sizes: Sizes | None = None
    n_heads: Size | None = None
    n_kv_heads: Size | None = None


class CardSummary(Response):
    """A built-in card in the list. There ``d_head`` is the width of a head's values, which MLA counts by."""

    name: str
    title: str
    attention: Literal["MHA", "GQA", "MQA", "MLA"]
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    total: int | None


class KVChoice(Response):
    """A number of KV heads, and the cache in fp16 bytes at each of the card's lengths."""

    n_kv_heads: int
    attention: str
    total: int | None
    cache: list[int]


class HeadChoice(Response):
    n_heads: int
    d_head: int


class CardResponse(CardSummary):
    """A card, counted. ``lengths`` are the context lengths at which caches (fp16 bytes) and work (FLOP) are given."""

    source: str
    config: dict[str, Any]
    lit: dict[str, int] = Field(description="the config's fields about heads, with their values now")
    model_type: str
    d_value: int
    windows: list[int | None] = Field(description="per layer: how far it looks back; null for all, 0 for no heads")
    experts: str | None
    context: int | None
    heads_in_all: int
    parts: dict[str, int] = Field(description="parameters of each part, over all layers")
    attention_parameters: int
    active: int | None
    exact: bool
    changed: bool
    published: HeadChoice
    published_kv_heads: int
    head_choices: list[HeadChoice]
    lengths: list[int]
    token_bytes: int = Field(description="of the cache, per token, in fp16")
    cache: list[int]
    expanded: list[int] | None = Field(description="MLA: if every head's key and value were kept instead")
    kv_choices: list[KVChoice]
    work: list[dict[str, int]]
    notes: list[str]


def card_list() -> list[CardSummary]:
    """Every built-in card."""
    return [_summary(card) for card in built_in().values()]


def _summary(card: Card) -> CardSummary:
    names = ("d_model", "n_layers", "n_heads", "n_kv_heads")
    return CardSummary(
        name=card.name,
        title=card.title,
        attention=card.model.kind,
        **{name: getattr(card.model, name) for name in names},
        d_head=card.model.d_value,
        total=card.parameters.total,
    )


def read_card(asked: CardRequest) -> CardResponse:
    """The requested card, with other numbers of heads where the request has them."""
    found = _card(asked)
    card = found
    if asked.n_heads not in (None, found.model.n_heads) or asked.n_kv_heads not in (None, found.model.n_kv_heads):
        card = found.change(n_heads=asked.n_heads, n_kv_heads=asked.n_kv_heads)
    return shown(card, found)


def _card(asked: CardRequest) -> Card:
    given = [part for part in (asked.name, asked.config, asked.sizes) if part is not None]
    if len(given) != 1:
        raise InputError(f"a card is read from a name, a config or sizes; this request has {len(given)} of them")
    if asked.sizes is not None:
        sizes = asked.sizes.model_dump()
        return from_sizes(sizes.pop("d_model"), sizes.pop("n_heads"), **sizes)
    if asked.config is not None:
        if not asked.config.lstrip().startswith("{"):  # anything else could be taken for a path
            raise InputError(f"this is not a config.json: it does not begin with a brace; one looks like {EXAMPLE}")
        return card_of(asked.config)
    if asked.name not in built_in():
        raise InputError(
            f"there is no card called {asked.name!r}; pick one of the {len(built_in())}, or paste a config"
        )
    return built_in()[asked.name]


def _lit(card: Card, published: Card) -> dict[str, int]:
    """The config's fields for the number and size of heads, with their values now."""
    shown = {}
    for size in ("n_heads", "n_kv_heads", "d_head"):
        keys = [key for key in KEYS[size] if key in published.config]
        if keys or card is not published:
            shown[keys[0] if keys else KEYS[size][0]] = int(getattr(card.model, size))
    return shown


def _lengths(card: Card) -> list[int]:
    """Powers of two from 1,024 on, and the model's own context length."""
    doubling = [SHORTEST << power for power in range((LONGEST // SHORTEST).bit_length())]
    own = [card.model.context] if card.model.context else []
    return sorted({*doubling, *own})


def shown(card: Card, published: Card, length: int | None = None) -> CardResponse:
    """Count a card at one length, or at those of the page. ``published``: the same before its heads were changed."""
    model, parameters = card.model, card.parameters
    lengths = _lengths(published) if length is None else [length]
    names = ("model_type", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_value", "context")
    experts = model.experts
    return CardResponse(
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
        parts=parameters.parts,
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
