"""A look's picture or sound as the page draws it: what the model read, and where its positions lie in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.app.wire import Arrays, numbers
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.models.inputs.media_positions import (
    NOT_TEXT,
    PatchGrid,
    ShownPicture,
    image_token_grid,
    image_token_id,
    listed_grid,
    patch_grid,
    picture_read,
    seconds_covered,
)
from headscope.models.protocol import Token
from headscope.names import Head, Site

Stream = Literal["text", "written"]
Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class _TokenStreams:
    """Token sequences by name; ``sides`` names those of queries and keys for sites that have not the usual ones."""

    tokens: Mapping[str, Tokens]
    sides: dict[str, tuple[str, str]]

    @property
    def other(self) -> dict[str, Tokens]:
        """The sequences other than the text and what is written."""
        return {name: tokens for name, tokens in self.tokens.items() if name not in ("text", "written")}


def usual_sides(site: Site) -> tuple[Stream, Stream]:
    """Which of the model's two texts the queries and keys of a site come from, on most inputs."""
    queries: Stream = "written" if site.name.startswith("decoder") else "text"
    return queries, "text" if site.kind == "cross" else queries


def token_streams(look: Look) -> _TokenStreams:
    """Every token sequence that some site of this look reads."""
    tokens: dict[str, Tokens] = {"text": look.tokens, "written": look.written}
    sides: dict[str, tuple[str, str]] = {}
    for name in look.sites:
        usual = usual_sides(look.shape.sites[name])
        both = (look.query_tokens(name), look.key_tokens(name))
        if all(each is tokens[side] or each == tokens[side] for each, side in zip(both, usual, strict=True)):
            continue
        stack = name.partition(".")[0]
        sides[name] = (_named(tokens, both[0], stack), _named(tokens, both[1], stack))
    return _TokenStreams(tokens, sides)


def _named(tokens: dict[str, Tokens], wanted: Tokens, stack: str) -> str:
    """The name of a token sequence; a new one gets the name of its stack, with a number if that is taken."""
    known = next((name for name, each in tokens.items() if each == wanted), None)
    if known is not None:
        return known
    stack = f"positions {stack}" if stack.isdigit() or stack in ("text", "written") else stack
    name = stack if stack not in tokens else f"{stack} {len(tokens)}"
    tokens[name] = wanted
    return name


WAVEFORM_BINS = 1_200


class MediaInfo(Response):
    """A picture or sound that was read.

    Arrays beside it: ``picture`` uint8 [row, column, 3], the pixels the model has read; ``waveform`` float32
    [bin, 2], the lowest and highest sample of each part of the sound.
    """

    kind: Literal["picture", "sound"]
    grids: dict[str, PatchGrid] = Field(description="by token sequence: which of its positions are patches")
    covered: dict[str, float] = Field(description="by token sequence: the seconds that its positions cover")
    seconds: float | None = Field(default=None, description="how long the sound is")
    note: str = ""


class ReceivedRequest(Request):
    """How much attention each key of a head receives."""

    look: LookName
    head: PartName


class ReceivedResponse(Response):
    """Mean weight per key over all queries. Arrays: ``received`` float32 [key]. ``sink``: the key with most of it."""

    look: str
    head: str
    sink: int


def media_info(look: Look, streams: Mapping[str, Sequence[Token]]) -> tuple[MediaInfo | None, Arrays]:
    """What the page draws of a look's picture or sound; ``streams`` are its token sequences by name."""
    shown = picture_of(look)
    grids = media_grids(look, streams)
    if isinstance(shown, ShownPicture):
        return MediaInfo(kind="picture", grids=grids, covered={}, note=shown.note), {"picture": shown.pixels}
    if shown is not None:
        return MediaInfo(kind="picture", grids={}, covered={}, note=shown), {}
    covered = {name: seconds for name, tokens in streams.items() if (seconds := seconds_covered(tokens)) is not None}
    samples, rate = look.prepared.samples, look.prepared.sampling_rate
    if samples is None and not covered:
        return None, {}
    seconds = None if samples is None or rate is None else len(samples) / rate
    arrays: Arrays = {} if samples is None else {"waveform": waveform(samples.numpy())}
    return MediaInfo(kind="sound", grids={}, covered=covered, seconds=seconds), arrays


def picture_of(look: Look) -> ShownPicture | str | None:
    """The picture that a look's model has read; why it cannot be shown; None if there is none."""
    return picture_read(look.prepared.inputs, _image_processor(look))


def media_grids(look: Look, streams: Mapping[str, Sequence[Token]]) -> dict[str, PatchGrid]:
    """The grids of patches, by token sequence: those of a vision tower, and of image tokens within a text."""
    grids = {name: grid for name, tokens in streams.items() if (grid := patch_grid(tokens)) is not None}
    vision = next(iter(grids.values()), None) or listed_grid(look.prepared.inputs)
    for name, tokens in streams.items():
        placed = None if name in grids else image_token_grid(tokens, _image_token(look), vision)
        if placed is not None:
            grids[name] = placed
    return grids


def waveform(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The lowest and highest sample of each of at most ``WAVEFORM_BINS`` equal parts."""
    parts = np.array_split(samples, min(WAVEFORM_BINS, len(samples)))
    return np.array([(part.min(), part.max()) for part in parts], dtype=np.float32)


def received(look: Look, asked: ReceivedRequest) -> tuple[ReceivedResponse, Arrays]:
    """The mean weight that each key receives from one head, and the key that receives most."""
    head = look.shape.find(asked.head)
    n_keys = look.site_source(head.site).k.shape[2]
    mean = look.pooled(head, (1, n_keys)).mean[0, 0]
    found = ReceivedResponse(look=asked.look, head=asked.head, sink=int(mean.argmax()))
    return found, {"received": numbers(mean)}


def _image_token(look: Look) -> int | None:
    try:
        config = getattr(look.model.model, "config", None)
    except InputError:  # a saved look without its model
        return None
    return image_token_id(config)


def _image_processor(look: Look) -> Any:
    try:
        return look.model.processor.media.image
    except InputError:  # a saved look without its model
        return None


@dataclass(frozen=True)
class HeadMap:
    """Weights ``[row, column]`` that a query gives to a picture's patches, and to everything else together.

    ``query`` is its label; ``chosen`` its row and column where it is a patch itself; ``sink`` the key that the head
    reads most over all queries.
    """

    head: Head
    query: str
    weights: NDArray[np.float32]
    outside: float
    chosen: tuple[int, int] | None
    sink: str


def map_grid(look: Look, site: str) -> PatchGrid | None:
    """The grid of patches among the keys of a site; None where its keys are not patches of a picture."""
    keys = look.key_tokens(site)
    streams = token_streams(look).tokens
    name = next((name for name, tokens in streams.items() if tokens == keys), None)
    return media_grids(look, streams).get(name or "")


def head_map(look: Look, head: str | Head, query: int | str | None = None) -> HeadMap:
    """What a query reads of the picture: one given by position or label, else ``default_query``'s."""
    found = look.shape.find(head)
    grid = map_grid(look, found.site)
    if grid is None:
        mapped = [site for site in look.sites if map_grid(look, site) is not None]
        other = f"; {', '.join(mapped)} read patches" if mapped else ""
        raise InputError(f"the keys of {found.site} are not patches of a picture{other}")
    queries = look.query_tokens(found.site)
    place = default_query(queries) if query is None else _position(queries, query)
    if place is None:
        row, label, chosen = look.pooled(found, (1, len(look.key_tokens(found.site)))).mean[0, 0], "mean", None
    else:
        row, label = look.weights(found, slice(place, place + 1))[0], queries[place].text
        at = place - grid.first
        own = len(queries) == len(look.key_tokens(found.site)) and 0 <= at < grid.rows * grid.columns
        chosen = divmod(at, grid.columns) if own else None
    weights = row.float().cpu().numpy()
    patches = weights[grid.first : grid.first + grid.rows * grid.columns].reshape(grid.rows, grid.columns)
    told, _ = received(look, ReceivedRequest(look="", head=str(found)))
    sink = look.key_tokens(found.site)[told.sink].text
    return HeadMap(found, label, patches, max(0.0, float(weights.sum() - patches.sum())), chosen, sink)


def default_query(queries: tuple[Token, ...]) -> int | None:
    """The last word, or the class token; None (the mean over all queries) where every position is a patch."""
    if queries[-1].id != NOT_TEXT:
        return len(queries) - 1
    return None if queries[0].text.startswith(("patch", "[", "window")) else 0


def _position(queries: tuple[Token, ...], query: int | str) -> int:
    """A query by its position (negative from the end) or its label."""
    if isinstance(query, str):
        places = [at for at, token in enumerate(queries) if query in (token.text, token.text.strip())]
        if len(places) == 1:
            return places[0]
        if not query.lstrip("-").isdigit():
            where = f"occurs at positions {places}; give one of them" if places else "is not among the queries"
            raise InputError(f"{query!r} {where}; they begin with {queries[0].text!r}")
        query = int(query)
    if not -len(queries) <= query < len(queries):
        raise InputError(f"position {query}: there are {len(queries)} queries, 0–{len(queries) - 1}")
    return query % len(queries)
