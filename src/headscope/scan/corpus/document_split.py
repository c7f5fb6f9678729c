"""Restrict attention to within pieces of documents: each piece as a call of its own, or all behind a document mask.

Calls of their own are exact and cheaper (a row of four equal pieces has a quarter of the query-key pairs), but need
scores that depend on distances only. Pieces at the same columns of several rows are one call.
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

MIN_MEAN_TOKENS = 96
"""Pieces shorter than this on average are cheaper behind a mask than in calls of their own."""


class DocumentBlock(NamedTuple):
    """Columns ``start:stop`` of some rows, which attend only among themselves."""

    rows: tuple[int, ...]
    start: int
    stop: int

    @property
    def row_index(self) -> slice | list[int]:
        """The rows as an index; adjacent rows as a slice, which neither copies nor synchronises with a GPU."""
        first, last = self.rows[0], self.rows[-1]
        return slice(first, last + 1) if self.rows == tuple(range(first, last + 1)) else list(self.rows)


@dataclass(frozen=True)
class DocumentSplit:
    """How the rows of one batch are split into blocks that do not attend to one another."""

    blocks: tuple[DocumentBlock, ...]
    piece_ids: Int[Tensor, "row position"]
    separate_calls: bool

    @classmethod
    def of(cls, rows: PackedRows) -> DocumentSplit:
        same_columns: dict[tuple[int, int], list[int]] = {}
        for piece in rows.pieces:
            same_columns.setdefault((piece.start, piece.stop), []).append(piece.row)
        blocks = tuple(DocumentBlock(tuple(at), start, stop) for (start, stop), at in sorted(same_columns.items()))
        return cls(blocks, rows.piece_ids(), rows.n_tokens >= MIN_MEAN_TOKENS * len(rows.pieces))

    def calls(self, call: Call) -> Iterator[tuple[DocumentBlock, Call]]:
        """Split an attention call into calls in which no query sees another piece."""
        if self.separate_calls and _depends_on_distance_only(call):
            for block in self.blocks:
                yield block, _inside(call, block)
        else:
            whole = DocumentBlock(tuple(range(call.q.shape[0])), 0, call.q.shape[2])
            mask = call.scores.mask & documents(self.piece_ids.to(call.q.device))
            yield whole, replace(call, scores=replace(call.scores, mask=mask))


def is_whole_call(block: DocumentBlock, call: Call) -> bool:
    return len(block.rows) == call.q.shape[0] and (block.start, block.stop) == (0, call.q.shape[2])


def _depends_on_distance_only(call: Call) -> bool:
    """Whether mask and bias depend on query-key distances only, so that a piece may be moved to the row's start."""
    scores = call.scores
    known_masks = all(isinstance(part, Causal | Window | Documents) for part in scores.mask.parts)
    return known_masks and (scores.bias is None or isinstance(scores.bias, Alibi | Relative))


def _inside(call: Call, block: DocumentBlock) -> Call:
    """The call restricted to a block. A document mask is dropped: the block is inside one document."""
    kept = Mask(tuple(part for part in call.scores.mask.parts if not isinstance(part, Documents)))
    scores = replace(call.scores, mask=kept)
    if is_whole_call(block, call):
        return replace(call, scores=scores)
    q, k, v = (tensor[block.row_index, :, block.start : block.stop] for tensor in (call.q, call.k, call.v))
    return replace(call, q=q, k=k, v=v, scores=scores)
