"""Marks of training text: spans of characters whose tokens weigh more in the loss of the embedded model."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from headscope.lab.train.batches import BatchSampler, TokenStream

MARK_WEIGHT = 8.0
BATCH = 256


def marked_tokens(path: Path, tokenizer: Tokenizer) -> Bool[Tensor, " token"]:
    """Which tokens of a file's documents, each after a start token, overlap one of its ``marks``."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    found = []
    for at in range(0, len(records), BATCH):
        part = records[at : at + BATCH]
        encodings = tokenizer.encode_batch([each["text"] for each in part], add_special_tokens=False)
        found += [
            _overlaps(each.offsets, record.get("marks", ())) for each, record in zip(encodings, part, strict=True)
        ]
    return torch.cat(found)


def raised(stream: TokenStream, marked: Bool[Tensor, " token"], vocabulary: int) -> TokenStream:
    """Add the vocabulary's size to marked tokens, so that marks move with them; held-out documents stand last."""
    return replace(stream, tokens=stream.tokens + vocabulary * marked[: len(stream.tokens)])


class MarkedSampler(BatchSampler):
    """Samples rows of streams with raised tokens; ``marked`` is which of the latest batch were.

    From step ``long_from`` on, streams have their ``long_weights``.
    """

    marked: Bool[Tensor, "row width"]
    long_weights: Float[Tensor, " stream"] | None = None
    long_from = 0

    def batch(self, step: int, n_rows: int, context: int) -> Int[Tensor, "row width"]:
        if self.long_weights is not None and step >= self.long_from:
            self.weights = self.long_weights.to(self.weights)
        rows = super().batch(step, n_rows, context)
        self.marked = rows >= self.vocabulary
        return rows % self.vocabulary


def _overlaps(offsets: Sequence[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> Bool[Tensor, " token"]:
    """Whether each token overlaps a mark, after the start token, which does not."""
    found = torch.zeros(len(offsets) + 1, dtype=torch.bool)
    for start, stop in marks:
        begin = bisect_right(offsets, start, key=itemgetter(1))  # the first token that ends behind the mark's start
        found[1 + begin : 1 + bisect_left(offsets, stop, key=itemgetter(0))] = True
    return found
