"""Sample training batches: random windows of text, some with a segment repeated several times.

A batch is a pure function of (seed, step), so a resumed run sees the same batches. Repeated segments teach induction.
Their lengths, positions and distances vary: at a fixed distance the model would learn that distance instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headscope.errors import InputError

SHORTEST, LONGEST = 8, 250
MOST_COPIES = 5
FOLD = 512  # longer rows are divided into parts of this width, so that repeats are as frequent as in short ones


@dataclass(frozen=True)
class TokenStream:
    """The concatenated tokens of one text file, and its sampling weight."""

    name: str
    tokens: Int[Tensor, " token"]
    weight: float

    def to(self, device: torch.device) -> TokenStream:
        return replace(self, tokens=self.tokens.to(device))


class BatchSampler:
    """Sample rows of a start token and text, on the device of the streams."""

    def __init__(
        self, streams: Sequence[TokenStream], vocabulary: int, *, repeats: float, seed: int, start: int = 0
    ) -> None:
        if not streams or min(stream.weight for stream in streams) < 0 or not any(stream.weight for stream in streams):
            raise InputError("training needs at least one text, each with a weight above 0")
        self.streams, self.vocabulary, self.repeats, self.seed, self.start = streams, vocabulary, repeats, seed, start
        self.tokens = torch.cat([stream.tokens for stream in streams])
        device = self.tokens.device
        self.lengths = torch.tensor([len(stream.tokens) for stream in streams], device=device)
        self.begins = self.lengths.cumsum(0) - self.lengths
        self.weights = torch.tensor([stream.weight for stream in streams], device=device)
        self.generator = torch.Generator(device=device)

    def batch(self, step: int, n_rows: int, context: int) -> Int[Tensor, "row width"]:
        """The batch of this step: ``context`` inputs and, shifted by one, their targets."""
        self.generator.manual_seed(self.seed * 1_000_003 + step)
        rows = self.windows(n_rows, context + 1)
        n_repeats = round(n_rows * self.repeats)
        if n_repeats:
            n_parts = max(1, context // FOLD)
            inner = rows[:n_repeats, : context // n_parts * n_parts]
            inner.copy_(self.with_repeats(inner.reshape(n_repeats * n_parts, -1)).view_as(inner))
        rows[:, 0] = self.start
        return rows

    def windows(self, n_rows: int, width: int) -> Int[Tensor, "row width"]:
        """Random windows of text; a stream is chosen by its weight."""
        stream = torch.multinomial(self.weights, n_rows, replacement=True, generator=self.generator)
        last = self.lengths[stream] - width
        start = self.begins[stream] + (self._uniform(n_rows) * (last + 1)).long()
        return self.tokens[start[:, None] + torch.arange(width, device=start.device)].long()

    def with_repeats(self, rows: Int[Tensor, "row width"]) -> Int[Tensor, "row width"]:
        """Repeat one segment 2 to 5 times in each row; in every second row it is random tokens."""
        n_rows, width = rows.shape
        noise = torch.randint(1, self.vocabulary, rows.shape, device=rows.device, generator=self.generator)
        is_noise = (torch.arange(n_rows, device=rows.device) % 2 == 0)[:, None]
        segment = torch.where(is_noise, noise, self.windows(n_rows, width))
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
            start = (gaps[:, copy] * slack).long() + copy * length
            inside = _inside(column, start, length) & (copies > copy)[:, None]
            rows = torch.where(inside, segment.gather(1, (column - start[:, None]).clamp(0, width - 1)), rows)
        return rows

    def _uniform(self, n: int) -> Tensor:
        return torch.rand(n, device=self.tokens.device, generator=self.generator)


def _inside(
    column: Int[Tensor, "1 width"], start: Int[Tensor, " row"], length: Int[Tensor, " row"]
) -> Bool[Tensor, "row width"]:
    return (column >= start[:, None]) & (column < (start + length)[:, None])
