"""Pack documents into rows of equal length. A row holds pieces of documents that do not attend to one another.

A document longer than a row is split into pieces, each with the tokens that the tokenizer adds. Shorter pieces share
rows: each goes into the fullest open row that it fits into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.attention.masks import Causal, Documents, Mask, Window, documents
from headscope.attention.observer import Call
from headscope.attention.scores import Alibi, Relative

OPEN_ROWS = 32
MIN_TOKENS = 2
"""Tokens in a piece: a single token could attend only to itself."""


def without_waiting(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the CPU to a device; to a GPU without waiting for what that has to do before."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Piece(NamedTuple):
    """A piece of a document in a row: columns ``start:stop`` hold its tokens, from the document's ``offset`` on."""

    row: int
    start: int
    stop: int
    document: int
    offset: int


class _PlacedRows(NamedTuple):
    """Rows on a device: token ids, positions within pieces, and the piece of each token."""

    ids: Int[Tensor, "row position"]
    positions: Int[Tensor, "row position"]
    piece_ids: Int[Tensor, "row position"]


@dataclass(frozen=True)
class PackedRows:
    """Token ids of rows and the pieces in them. Padding is token 0 and belongs to no piece."""

    ids: Int[Tensor, "row position"]
    pieces: tuple[Piece, ...]

    @property
    def n_tokens(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)

    def batches(self, size: int) -> Iterator[PackedRows]:
        """Split the rows into batches, in order."""
        for first in range(0, len(self.ids), size):
            inside = [piece for piece in self.pieces if first <= piece.row < first + size]
            moved = tuple(piece._replace(row=piece.row - first) for piece in inside)
            yield PackedRows(self.ids[first : first + size], moved)

    def without_padding(self) -> Iterator[PackedRows]:
        """The rows of each length, cut to it. Every row holds one piece."""
        for length, same in groupby(sorted(self.pieces, key=attrgetter("stop")), key=attrgetter("stop")):
            pieces = list(same)
            ids = self.ids[[piece.row for piece in pieces], :length]
            yield PackedRows(ids, tuple(piece._replace(row=row) for row, piece in enumerate(pieces)))

    def positions(self) -> Int[Tensor, "row position"]:
        """Token positions that restart at 0 in every piece, and in the padding after the last one."""
        return self._places[0]

    def piece_ids(self) -> Int[Tensor, "row position"]:
        """The index of the piece that each token belongs to; −1 for padding."""
        return self._places[1]

    def on(self, device: torch.device) -> _PlacedRows:
        """The rows on a device, copied there once and without waiting for what it has to do before."""
        if device not in self._copies:
            self._copies[device] = _PlacedRows(
                *without_waiting(torch.stack((self.ids, *self._places)), device).unbind()
            )
        return self._copies[device]

    @cached_property
    def _copies(self) -> dict[torch.device, _PlacedRows]:
        return {}

    @cached_property
    def _places(self) -> tuple[Int[Tensor, "row position"], Int[Tensor, "row position"]]:
        """Positions and piece ids, of all pieces at once: a slice for each takes longer than everything else."""
        n_rows, context = self.ids.shape
        row, start, stop = np.array([piece[:3] for piece in self.pieces], dtype=np.int64).reshape(-1, 3).T
        ends = np.zeros(n_rows, dtype=np.int64)
        np.maximum.at(ends, row, stop)
        columns = np.arange(context)
        positions = np.where(columns >= ends[:, None], columns - ends[:, None], 0)
        owner = np.full((n_rows, context), -1)
        lengths = stop - start
        number = np.repeat(np.arange(len(self.pieces)), lengths)
        inside = np.arange(lengths.sum()) - (lengths.cumsum() - lengths)[number]
        at = (row[number], start[number] + inside)
        positions[at], owner[at] = inside, number
        return torch.from_numpy(positions), torch.from_numpy(owner)

    def to_bytes(self) -> bytes:
        table = torch.tensor(self.pieces, dtype=torch.long).reshape(-1, len(Piece._fields))
        return save_tensors({"ids": self.ids.to(torch.int32).contiguous(), "pieces": table})

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedRows:
        read = load_tensors(data)
        return cls(read["ids"].long(), tuple(Piece(*row) for row in read["pieces"].tolist()))

    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()


@dataclass(frozen=True)
class RowFormat:
    """How rows are made for a model: their length, the tokens around every piece, and how pieces share rows."""

    context: int
    tokens_before: tuple[int, ...] = ()
    tokens_after: tuple[int, ...] = ()
    share_rows: bool = True
    first_position: int | None = None
    """The position id of a piece's first token, or None where position ids run through the row."""
    pads_rows: bool = True
    """Whether short rows are padded; where that would change what is in them, each pass has rows of one length."""

    @property
    def document_tokens(self) -> int:
        """How many tokens of a document fit in one row."""
        return self.context - len(self.tokens_before) - len(self.tokens_after)

    def to_recipe(self) -> dict[str, object]:
        restarts = self.first_position is not None
        shared = "positions begin again with each piece" if restarts else "positions run on through a row"
        alone = "one piece a row" if self.pads_rows else "one piece a row, without padding"
        return {
            "context": self.context,
            "tokens_before_each_piece": list(self.tokens_before),
            "tokens_after_each_piece": list(self.tokens_after),
            "rows": shared if self.share_rows else alone,
        }


class _UnplacedPiece(NamedTuple):
    document: int
    offset: int
    ids: list[int]


@dataclass(eq=False)
class _Row:
    used: int = 0
    pieces: list[_UnplacedPiece] = field(default_factory=list)


def pack(documents: Iterable[tuple[int, list[int]]], row_format: RowFormat, n_rows: int) -> Iterator[PackedRows]:
    """Pack documents, given as (number, tokens) in one or several parts, and yield ``n_rows`` rows at a time."""
    rows = _rows(documents, row_format)
    while full := list(islice(rows, n_rows)):
        yield _to_tensors(full, row_format.context)


def _rows(documents: Iterable[tuple[int, list[int]]], row_format: RowFormat) -> Iterator[_Row]:
    open_rows: list[_Row] = []
    smallest = row_format.context - row_format.document_tokens + MIN_TOKENS
    for piece in _pieces(documents, row_format):
        fitting = [row for row in open_rows if row.used + len(piece.ids) <= row_format.context]
        row = max(fitting, key=lambda row: row.used, default=None)
        if row is None:
            row = _Row()
            open_rows.append(row)
        row.pieces.append(piece)
        row.used += len(piece.ids)
        full = not row_format.share_rows or row_format.context - row.used < smallest
        if full or len(open_rows) > OPEN_ROWS:
            done = row if full else max(open_rows, key=lambda row: row.used)
            open_rows.remove(done)
            yield done
    yield from open_rows


def _pieces(documents: Iterable[tuple[int, list[int]]], row_format: RowFormat) -> Iterator[_UnplacedPiece]:
    """Split every document into pieces that fit a row. A last piece of one token is left out."""
    size, before, after = row_format.document_tokens, row_format.tokens_before, row_format.tokens_after
    for document, parts in groupby(documents, key=itemgetter(0)):
        held: list[int] = []
        offset = 0
        for _, ids in parts:
            held += ids
            while len(held) >= size:
                yield _UnplacedPiece(document, offset, [*before, *held[:size], *after])
                held, offset = held[size:], offset + size
        if len(held) >= MIN_TOKENS:
            yield _UnplacedPiece(document, offset, [*before, *held, *after])


def _to_tensors(rows: list[_Row], context: int) -> PackedRows:
    ids = np.zeros((len(rows), context), dtype=np.int64)
    placed = []
    for number, row in enumerate(rows):
        start = 0
        for piece in row.pieces:
            stop = start + len(piece.ids)
            ids[number, start:stop] = piece.ids
            placed.append(Piece(number, start, stop, piece.document, piece.offset))
            start = stop
    return PackedRows(torch.from_numpy(ids), tuple(placed))


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
    """How the rows of one batch are split into blocks that do not attend to one another.

    Calls of their own are exact and cheaper (a row of four equal pieces has a quarter of the query-key pairs), but need
    scores that depend on distances only.
    """

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
