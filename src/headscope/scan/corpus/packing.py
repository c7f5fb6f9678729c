"""Documents packed to the context: rows of equal length, each holding pieces that never see one another.

A document longer than a row is cut into pieces, each with the tokenizer's start token if it adds one. Shorter pieces
share rows: each goes into the fullest open row that still has room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from headscope.scan.tally.examples import Span

OPEN_ROWS = 32
SHORTEST = 2
"""Tokens: a lone token has nobody to look at."""


@dataclass(frozen=True)
class PackedRows:
    """Token rows and the pieces in them. Padding is 0 and belongs to no piece."""

    ids: Int[Tensor, "row position"]
    pieces: tuple[Span, ...]

    @property
    def n_tokens(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)

    def batches(self, size: int) -> Iterator[PackedRows]:
        """Rows a few at a time, in order."""
        for first in range(0, len(self.ids), size):
            inside = [piece for piece in self.pieces if first <= piece.row < first + size]
            moved = tuple(piece._replace(row=piece.row - first) for piece in inside)
            yield PackedRows(self.ids[first : first + size], moved)

    def places(self) -> Int[Tensor, "row position"]:
        """Positions that begin again with every piece; padding counts on its own."""
        places = torch.zeros_like(self.ids, dtype=torch.long)
        ends = [0] * len(self.ids)
        for piece in self.pieces:
            places[piece.row, piece.start : piece.stop] = torch.arange(piece.stop - piece.start)
            ends[piece.row] = max(ends[piece.row], piece.stop)
        for row, end in enumerate(ends):
            places[row, end:] = torch.arange(places.shape[1] - end)
        return places

    def owners(self) -> Int[Tensor, "row position"]:
        """Which piece each token is in; padding is −1."""
        owners = torch.full_like(self.ids, -1, dtype=torch.long)
        for number, piece in enumerate(self.pieces):
            owners[piece.row, piece.start : piece.stop] = number
        return owners

    def to_bytes(self) -> bytes:
        table = torch.tensor(self.pieces, dtype=torch.long).reshape(-1, len(Span._fields))
        return save_tensors({"ids": self.ids.to(torch.int32).contiguous(), "pieces": table})

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedRows:
        read = load_tensors(data)
        return cls(read["ids"].long(), tuple(Span(*row) for row in read["pieces"].tolist()))

    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()


@dataclass(frozen=True)
class Frame:
    """What stands around every piece: the context, the tokens a tokenizer adds before and after, and sharing."""

    context: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    share_rows: bool = True

    @property
    def room(self) -> int:
        """Tokens of a document that fit in one row."""
        return self.context - len(self.before) - len(self.after)


@dataclass
class _Cut:
    """Tokens of one document, framed."""

    document: int
    offset: int
    ids: list[int]


@dataclass
class _Row:
    used: int = 0
    cuts: list[_Cut] = field(default_factory=list)

    def put(self, cut: _Cut) -> None:
        self.cuts.append(cut)
        self.used += len(cut.ids)


def pack(documents: Iterable[tuple[int, list[int]]], frame: Frame, rows_at_once: int) -> Iterator[PackedRows]:
    """Numbered documents, given in stretches of tokens, as packed rows, so many at a time."""
    full: list[_Row] = []
    for row in _rows(documents, frame):
        full.append(row)
        if len(full) == rows_at_once:
            yield _laid_out(full, frame.context)
            full = []
    if full:
        yield _laid_out(full, frame.context)


def _rows(documents: Iterable[tuple[int, list[int]]], frame: Frame) -> Iterator[_Row]:
    waiting: list[_Row] = []
    for cut in _cuts(documents, frame):
        fitting = [row for row in waiting if row.used + len(cut.ids) <= frame.context] if frame.share_rows else []
        if fitting:
            row = max(fitting, key=lambda row: row.used)
        else:
            row = _Row()
            waiting.append(row)
        row.put(cut)
        if frame.context - row.used < SHORTEST + len(frame.before) + len(frame.after) or not frame.share_rows:
            waiting.remove(row)
            yield row
        elif len(waiting) > OPEN_ROWS:
            fullest = max(waiting, key=lambda row: row.used)
            waiting.remove(fullest)
            yield fullest
    yield from waiting


def _cuts(documents: Iterable[tuple[int, list[int]]], frame: Frame) -> Iterator[_Cut]:
    held: list[int] = []
    current, offset = -1, 0

    def cut(ids: list[int]) -> _Cut:
        return _Cut(current, offset, [*frame.before, *ids, *frame.after])

    for document, ids in documents:
        if document != current:
            if len(held) >= SHORTEST:
                yield cut(held)
            held, current, offset = [], document, 0
        held = held + ids
        while len(held) >= frame.room:
            yield cut(held[: frame.room])
            held, offset = held[frame.room :], offset + frame.room
    if len(held) >= SHORTEST:
        yield cut(held)


def _laid_out(rows: list[_Row], context: int) -> PackedRows:
    ids = torch.zeros(len(rows), context, dtype=torch.long)
    pieces = []
    for number, row in enumerate(rows):
        place = 0
        for cut in row.cuts:
            stop = place + len(cut.ids)
            ids[number, place:stop] = torch.tensor(cut.ids)
            pieces.append(Span(number, place, stop, cut.document, cut.offset))
            place = stop
    return PackedRows(ids, tuple(pieces))
