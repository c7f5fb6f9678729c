"""Training rows: windows of text from random places, some of them with a stretch pasted in several times.

A row is a pure function of (seed, step), so a run that was killed goes on as if nothing had happened. Pasted stretches
are what induction heads are for. Their length, their places and the distances between them all vary: at a fixed
distance the model would learn that distance instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.errors import InputError

SHORTEST, LONGEST = 8, 250
MOST_COPIES = 5
FOLD = 512  # wider rows are repeated in piece by piece, so that a long context sees repeats as often as a short one


@dataclass(frozen=True)
class Stream:
    """The tokens of one text, end to end, and how often rows are taken from it."""

    name: str
    tokens: Int[Tensor, " token"]
    weight: float


class Rows:
    """Batches of rows, each the start token and then text, made on the device that holds the streams."""

    def __init__(
        self, streams: Sequence[Stream], vocabulary: int, *, repeats: float, seed: int, start: int = 0
    ) -> None:
        if not streams or not all(stream.weight > 0 for stream in streams):
            raise InputError("training needs at least one text, each with a weight above 0")
        self.streams, self.vocabulary, self.repeats, self.seed, self.start = streams, vocabulary, repeats, seed, start
        self.tokens = torch.cat([stream.tokens for stream in streams])
        device = self.tokens.device
        self.lengths = torch.tensor([len(stream.tokens) for stream in streams], device=device)
        self.begins = self.lengths.cumsum(0) - self.lengths
        self.weights = torch.tensor([stream.weight for stream in streams], device=device)
        self.generator = torch.Generator(device=device)

    def batch(self, step: int, n_rows: int, context: int) -> Int[Tensor, "{n_rows} {context}+1"]:
        """The rows of this step: ``context`` inputs and, shifted by one, their targets."""
        self.generator.manual_seed(self.seed * 1_000_003 + step)
        rows = self.windows(n_rows, context + 1)
        n_repeats = round(n_rows * self.repeats)
        if n_repeats:
            pieces = max(1, context // FOLD)
            inner = rows[:n_repeats, : context // pieces * pieces]
            inner.copy_(self.with_repeats(inner.reshape(n_repeats * pieces, -1)).view_as(inner))
        rows[:, 0] = self.start
        return rows

    def windows(self, n_rows: int, width: int) -> Int[Tensor, "row width"]:
        """Stretches of text from random places; a text is chosen by its weight."""
        stream = torch.multinomial(self.weights, n_rows, replacement=True, generator=self.generator)
        room = self.lengths[stream] - width
        at = self.begins[stream] + (self._uniform(n_rows) * (room + 1)).long()
        return self.tokens[at[:, None] + torch.arange(width, device=at.device)].long()

    def with_repeats(self, rows: Int[Tensor, "row width"]) -> Int[Tensor, "row width"]:
        """The rows with one stretch pasted at 2 to 5 places; in every second row it is random tokens."""
        n_rows, width = rows.shape
        noise = torch.randint(1, self.vocabulary, rows.shape, device=rows.device, generator=self.generator)
        is_noise = (torch.arange(n_rows, device=rows.device) % 2 == 0)[:, None]
        stretch = torch.where(is_noise, noise, self.windows(n_rows, width))
        copies = 2 + (self._uniform(n_rows) * (MOST_COPIES - 1)).long()
        longest = (width // copies).clamp(SHORTEST, LONGEST)
        length = (SHORTEST + self._uniform(n_rows) * (longest - SHORTEST + 1)).long()
        slack = (width - copies * length).clamp(min=0)
        gaps = torch.rand(n_rows, MOST_COPIES, device=rows.device, generator=self.generator)
        gaps = (
            gaps.masked_fill(torch.arange(MOST_COPIES, device=rows.device) >= copies[:, None], 1.0).sort(dim=1).values
        )
        column = torch.arange(width, device=rows.device)[None, :]
        for copy in range(MOST_COPIES):
            place = (gaps[:, copy] * slack).long() + copy * length
            inside = _inside(column, place, length) & (copies > copy)[:, None]
            rows = torch.where(inside, stretch.gather(1, (column - place[:, None]).clamp(0, width - 1)), rows)
        return rows

    def _uniform(self, n: int) -> Tensor:
        return torch.rand(n, device=self.tokens.device, generator=self.generator)


def _inside(
    column: Int[Tensor, "1 width"], place: Int[Tensor, " row"], length: Int[Tensor, " row"]
) -> Bool[Tensor, "row width"]:
    return (column >= place[:, None]) & (column < (place + length)[:, None])
