"""Rectangles of a head's attention pattern, exact or pooled, and thumbnails of all heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor

from headscope.app.lru import LRU
from headscope.app.pages.schema import LookName, PartName, Request, Response
from headscope.attention import pattern
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.names import Head, Site

THUMBNAIL_SIDE = 32
DENSE_THUMBNAIL = 1_024  # tokens up to which a thumbnail is made from every row
SAMPLED_ROWS = 256
LARGEST_TILE = 2**22  # numbers in one response
TOGETHER = 2**20  # weights of a site up to which its thumbnails are made at once; past it one head fits the cache
QUICK = 2_048**2  # query-key pairs up to which a pooled tile is computed on each request
KEPT_LARGE = 16  # cached tiles of more pairs
KEPT_MAXIMA = 4_096  # heads whose row maxima are cached

Span = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class WeightsRequest(Request):
    """A rectangle of one head's pattern; with ``pool`` > 1 each number stands for pool × pool weights."""

    look: LookName
    head: PartName
    rows: Span
    columns: Span
    pool: int = Field(default=1, ge=1)
    how: Literal["max", "mean"] = "max"
    measure: Literal["weight", "row", "value"] = Field(
        default="weight",
        description="the weight; the weight over its row's largest; or the weight times the norm of the value vector "
        "it moves (before W_O)",
    )
    aside: bool = Field(default=False, description="leave the first key out of the row's largest weight")


class WeightsResponse(WeightsRequest, Response):
    """The request with its spans clipped to the text. Arrays: ``weights`` float32 [row, column]."""


class PatternTiles:
    """Tiles of one look's attention patterns; caches row maxima and large tiles."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self._row_maxima: LRU[tuple[Head, bool], Float[Tensor, " query"]] = LRU(KEPT_MAXIMA)
        self._large: LRU[WeightsResponse, Tensor] = LRU(KEPT_LARGE)

    @property
    def nbytes(self) -> int:
        """Bytes of what is cached."""
        cached = [*self._row_maxima.values(), *self._large.values()]
        return sum(each.numel() * each.element_size() for each in cached)

    def tile(self, asked: WeightsRequest) -> tuple[WeightsResponse, Tensor]:
        """The requested rectangle, clipped to the text."""
        head = self.look.shape.find(asked.head)
        rows = span(asked.rows, len(self.look.query_tokens(head.site)))
        columns = span(asked.columns, len(self.look.key_tokens(head.site)))
        height, width = (-(-(end - start) // asked.pool) for start, end in (rows, columns))
        if height * width > LARGEST_TILE:
            raise InputError(
                f"{height}×{width} weights are more than one answer holds ({LARGEST_TILE}); raise pool={asked.pool}"
            )
        found = WeightsResponse(**asked.model_dump() | {"rows": rows, "columns": columns})
        if asked.pool == 1:
            return found, pattern.weights(self._source(head, asked), slice(*rows), slice(*columns))[0, 0]
        if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= QUICK:
            return found, self._pooled(head, found, (height, width))
        return found, self._large.cached(found, lambda: self._pooled(head, found, (height, width)))

    def _pooled(self, head: Head, asked: WeightsRequest, shape: tuple[int, int]) -> Tensor:
        pooled = pattern.pooled(self._source(head, asked), shape, slice(*asked.rows), slice(*asked.columns))
        return (pooled.maximum if asked.how == "max" else pooled.mean)[0]

    def thumbnails(self, site: Site) -> UInt8[np.ndarray, "head side side"]:
        """A site's patterns, small: round(255·√weight), pooled by the maximum."""
        longest = max(map(len, (self.look.tokens, *self.look.prepared.stacks.values())))
        side = min(longest, THUMBNAIL_SIDE)
        if site.name not in self.look.sites:
            return np.zeros((site.n_heads, side, side), dtype=np.uint8)
        source, length = self.look.site_source(site.name), len(self.look.query_tokens(site.name))
        rows = torch.arange(length) if length <= DENSE_THUMBNAIL else torch.linspace(0, length - 1, SAMPLED_ROWS).long()
        together = len(rows) * source.k.shape[2] * site.n_heads <= TOGETHER
        parts = [source] if together else [source.only(head.head) for head in site.heads()]
        weights = (pattern.weights(part, rows, slice(None))[0].float() for part in parts)
        small = torch.cat([torch.nn.functional.adaptive_max_pool2d(each, (side, side)) for each in weights])
        return (small.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).cpu().numpy()

    def _source(self, head: Head, asked: WeightsRequest) -> pattern.PatternSource:
        """What the pattern is recomputed from, with the factors of the requested measure."""
        source = self.look.source(head)
        if asked.measure == "value":
            return replace(source, by_key=self.look.value_norms(head).to(source.logsumexp))
        if asked.measure == "row":
            largest = self._row_maximum(head, asked.aside)
            return replace(source, by_row=torch.where(largest > 0, 1 / largest, 0.0))
        return source

    def _row_maximum(self, head: Head, aside: bool) -> Float[Tensor, " query"]:
        strongest = self.look.statistics(head.site).strongest
        if strongest is not None and not aside:
            return strongest.weight[0, head.head]
        source = self.look.source(head)
        n_query, n_key = source.q.shape[2], source.k.shape[2]
        if aside and n_key == 1:
            return source.logsumexp.new_zeros(n_query)
        columns = slice(int(aside), None)
        return self._row_maxima.cached(
            (head, aside), lambda: pattern.pooled(source, (n_query, 1), slice(None), columns).maximum[0, :, 0]
        )


def span(asked: tuple[int, int], length: int) -> tuple[int, int]:
    """A range of positions, clipped to the text."""
    start, end = asked[0], min(asked[1], length)
    if start >= end:
        raise InputError(f"positions {asked[0]} to {asked[1]}: this text has {length} tokens")
    return start, end
