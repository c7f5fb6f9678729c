"""A head's pattern as the page draws it: any rectangle, exact or pooled, through one of three measures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from headscope.app import schema
from headscope.attention import rectangles
from headscope.errors import InputError
from headscope.heads.look import Look
from headscope.names import Head

THUMBNAIL_SIDE = 32
DENSE_THUMBNAIL = 1_024  # tokens up to which a thumbnail sees every row
SAMPLED_ROWS = 256
LARGEST_ANSWER = 2**22  # numbers in one rectangle


class Views:
    """One look's patterns. Keeps the largest weight of each row, which a zoom asks for again and again."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self._largest: dict[tuple[Head, bool], Float[Tensor, " query"]] = {}

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
        source, part = self._through(head, asked), (slice(*rows), slice(*columns))
        if asked.pool == 1:
            found = rectangles.weights(source, *part)[0, 0]
        else:
            pooled = rectangles.pooled(source, (height, width), *part)
            found = (pooled.maximum if asked.how == "max" else pooled.mean)[0]
        return schema.WeightsCard(**asked.model_dump() | {"rows": rows, "columns": columns}), found

    def thumbnail(self, head: Head) -> NDArray[np.uint8]:
        """The whole pattern, small: round(255·√weight), pooled by the maximum."""
        look = self.look
        side = min(len(look.tokens), THUMBNAIL_SIDE)
        if head.site not in look.sites:
            return np.zeros((side, side), dtype=np.uint8)
        length = len(look.query_tokens(head.site))
        rows = torch.arange(length) if length <= DENSE_THUMBNAIL else torch.linspace(0, length - 1, SAMPLED_ROWS).long()
        weights = look.weights(head, rows)
        small = torch.nn.functional.adaptive_max_pool2d(weights[None].float(), (side, side))[0]
        return (small.clamp(0, 1).sqrt() * 255).round().to(torch.uint8).cpu().numpy()

    def _through(self, head: Head, asked: schema.WeightsRequest) -> rectangles.Source:
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
                self._largest[key] = rectangles.row_maxima(self.look.source(head), slice(int(aside), None))[0]
            else:
                self._largest[key] = strongest.weight[0, head.head]
        return self._largest[key]


def span(asked: tuple[int, int], length: int) -> tuple[int, int]:
    """These positions, as far as the text goes."""
    start, end = asked[0], min(asked[1], length)
    if start >= end:
        raise InputError(f"positions {asked[0]} to {asked[1]}: this text has {length} tokens")
    return start, end
