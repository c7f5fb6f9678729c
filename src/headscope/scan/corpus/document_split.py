"""Attention inside pieces only. Pieces are attended to one by one where a mask allows it, else behind a document mask.

One by one is exact and cheaper: a row of four pieces has a quarter of the cells. Pieces at the same columns of several
rows go together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from headscope.attention.masks import Causal, Documents, Mask, Window, documents
from headscope.attention.observer import Call
from headscope.attention.scores import Alibi, Relative
from headscope.scan.corpus.packing import PackedRows

SHORT = 96
"""Pieces shorter than this on average are cheaper behind a mask than one by one."""


class Block(NamedTuple):
    """These rows, columns ``start:stop``, attend among themselves."""

    rows: tuple[int, ...]
    start: int
    stop: int

    @property
    def at(self) -> slice | list[int]:
        """Its rows as an index; neighbours as a slice, which copies nothing and never waits for a GPU."""
        first, last = self.rows[0], self.rows[-1]
        return slice(first, last + 1) if self.rows == tuple(range(first, last + 1)) else list(self.rows)


@dataclass(frozen=True)
class Separation:
    """How the rows of one batch fall apart."""

    blocks: tuple[Block, ...]
    owners: Int[Tensor, "row position"]
    one_by_one: bool

    @classmethod
    def of(cls, rows: PackedRows) -> Separation:
        same: dict[tuple[int, int], list[int]] = {}
        for piece in rows.pieces:
            same.setdefault((piece.start, piece.stop), []).append(piece.row)
        blocks = tuple(Block(tuple(at), start, stop) for (start, stop), at in sorted(same.items()))
        return cls(blocks, rows.owners(), rows.n_tokens >= SHORT * len(rows.pieces))

    def parts(self, call: Call) -> Iterator[tuple[Block, Call]]:
        """The call, as smaller calls in which nobody sees another piece."""
        if self.one_by_one and _moves_freely(call):
            for block in self.blocks:
                yield block, _inside(call, block)
        else:
            whole = Block(tuple(range(call.q.shape[0])), 0, call.q.shape[2])
            apart = documents(self.owners.to(call.q.device))
            yield whole, replace(call, scores=replace(call.scores, mask=call.scores.mask & apart))


def covers(block: Block, call: Call) -> bool:
    """Whether the block is the whole call."""
    return len(block.rows) == call.q.shape[0] and (block.start, block.stop) == (0, call.q.shape[2])


def _moves_freely(call: Call) -> bool:
    """Whether the scores depend on distances only, so that a piece may be cut out of its row."""
    scores = call.scores
    in_words = all(isinstance(part, Causal | Window | Documents) for part in scores.mask.parts)
    return in_words and (scores.bias is None or isinstance(scores.bias, Alibi | Relative))


def _inside(call: Call, block: Block) -> Call:
    kept = Mask(tuple(part for part in call.scores.mask.parts if not isinstance(part, Documents)))
    scores = replace(call.scores, mask=kept)
    if covers(block, call):
        return replace(call, scores=scores)
    q, k, v = (tensor[block.at, :, block.start : block.stop] for tensor in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v, scores=scores)
