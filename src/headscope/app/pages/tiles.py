"""A head's pattern as the page draws it: any rectangle, exact or pooled, through one of three measures."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from headscope.app.pages import schema
from headscope.attention import pattern
from headscope.errors import InputError
from headscope.heads.look.look import Look
from headscope.names import Head, Site

THUMBNAIL_SIDE = 32
DENSE_THUMBNAIL = 1_024  # tokens up to which a thumbnail sees every row
SAMPLED_ROWS = 256
LARGEST_ANSWER = 2**22  # numbers in one rectangle
TOGETHER = 2**20  # weights of a site up to which its thumbnails are made at once; past it one head fits the cache
QUICK = 2_048**2  # pairs up to which a pooled rectangle is computed each time it is asked for
KEPT_LARGE = 16  # larger ones that are kept


class Views:
    """One look's patterns. Keeps the largest weight of each row, which a zoom asks for again and again."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self._largest: dict[tuple[Head, bool], Float[Tensor, " query"]] = {}
        self._large: OrderedDict[schema.WeightsCard, Tensor] = OrderedDict()

    def rectangle(self, asked: schema.WeightsRequest) -> tuple[schema.WeightsCard, Tensor]:
        """The rectangle that was asked for, cut down to the text."""
        head = self.look.shape.find(asked.head)
        rows = span(asked.rows, len(self.look.query_tokens(head.site)))
        columns = span(asked.columns, len(self.look.key_tokens(head.site)))
        height, width = (-(-(end - start) // asked.pool) for start, end in (rows, columns))
        if height * width > LARGEST_ANSWER:
            raise InputError(
                f"{height}×{width} weights are more than one answer holds ({LARGEST_ANSWER}); raise pool={asked.pool}"
            )
        card = schema.WeightsCard(**asked.model_dump() | {"rows": rows, "columns": columns})
        if asked.pool == 1:
            return card, pattern.weights(self._through(head, asked), slice(*rows), slice(*columns))[0, 0]
        if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= QUICK:
            return card, self._pooled(head, asked, card, (height, width))
        if card not in self._large:
            self._large[card] = self._pooled(head, asked, card, (height, width))
            while len(self._large) > KEPT_LARGE:
                self._large.popitem(last=False)
        self._large.move_to_end(card)
        return card, self._large[card]

    def _pooled(
        self, head: Head, asked: schema.WeightsRequest, card: schema.WeightsCard, shape: tuple[int, int]
    ) -> Tensor:
        pooled = pattern.pooled(self._through(head, asked), shape, slice(*card.rows), slice(*card.columns))
        return (pooled.maximum if asked.how == "max" else pooled.mean)[0]

    def thumbnails(self, site: Site) -> UInt8[np.ndarray, "head side side"]:
        """A site's patterns, small: round(255·√weight), pooled by the maximum."""
        side = min(len(self.look.tokens), THUMBNAIL_SIDE)
        if site.name not in self.look.sites:
            return np.zeros((site.n_heads, side, side), dtype=np.uint8)
        source, length = self.look.site_source(site.name), len(self.look.query_tokens(site.name))
        rows = torch.arange(length) if length <= DENSE_THUMBNAIL else torch.linspace(0, length - 1, SAMPLED_ROWS).long()
        together = len(rows) * source.k.shape[2] * site.n_heads <= TOGETHER
        parts = [source] if together else [source.only(head.head) for head in site.heads()]
        small = torch.cat([_smaller(pattern.weights(part, rows, slice(None))[0], side) for part in parts])
        return (small.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).cpu().numpy()

    def _through(self, head: Head, asked: schema.WeightsRequest) -> pattern.Source:
        """What the pattern is recomputed from, with the measure's factors."""
        source = self.look.source(head)
        if asked.measure == "value":
            return replace(source, by_key=self.look.value_norms(head).to(source.logsumexp))
        if asked.measure == "row":
            largest = self._largest_of_rows(head, asked.aside)
            return replace(source, by_row=torch.where(largest > 0, 1 / largest, 0.0))
        return source

    def _largest_of_rows(self, head: Head, aside: bool) -> Float[Tensor, " query"]:
        key = (head, aside)
        if key not in self._largest:
            strongest = self.look.statistics(head.site).strongest
            if aside or strongest is None:
                self._largest[key] = pattern.row_maxima(self.look.source(head), slice(int(aside), None))[0]
            else:
                self._largest[key] = strongest.weight[0, head.head]
        return self._largest[key]


def _smaller(weights: Float[Tensor, "head query key"], side: int) -> Float[Tensor, "head side side"]:
    return torch.nn.functional.adaptive_max_pool2d(weights.float(), (side, side))


def span(asked: tuple[int, int], length: int) -> tuple[int, int]:
    """These positions, as far as the text goes."""
    start, end = asked[0], min(asked[1], length)
    if start >= end:
        raise InputError(f"positions {asked[0]} to {asked[1]}: this text has {length} tokens")
    return start, end
