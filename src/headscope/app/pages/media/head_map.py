"""What one query of a head reads of a picture: the weights of its patches, for a terminal and for a PNG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headscope.app.pages.media.shown import ReceivedRequest, media_grids, received
from headscope.app.pages.media.streams import token_streams
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.models.inputs.media_positions import NOT_TEXT, PatchGrid
from headscope.models.protocol import Token
from headscope.names import Head


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
    """The grid of patches among the keys of a site; None where its keys are no patches of a picture."""
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
        raise InputError(f"the keys of {found.site} are no patches of a picture{other}")
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
            where = f"at positions {places}; give one of them" if places else "nowhere among the queries"
            raise InputError(f"{query!r} stands {where}; they begin with {queries[0].text!r}")
        query = int(query)
    if not -len(queries) <= query < len(queries):
        raise InputError(f"position {query}: there are {len(queries)} queries, 0–{len(queries) - 1}")
    return query % len(queries)
