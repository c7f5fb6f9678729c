"""Pieces in calls of their own, or behind a mask, give what each piece gives alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from headscope.attention.masks import Mask, causal
from headscope.attention.observer import Call, plain
from headscope.attention.scores import Scores
from headscope.scan.corpus import packing
from headscope.scan.corpus.packing import DocumentBlock, DocumentSplit, PackedRows, Piece, RowFormat, pack

HEADS, KV, WIDTH = 4, 2, 3


def a_call(rows: PackedRows, mask: Mask, **scores: object) -> Call:
    batch, length = rows.ids.shape
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    q, k, v = (
        torch.randn(batch, heads, length, WIDTH, generator=generator, dtype=torch.float64) for heads in (HEADS, KV, KV)
    )
    return Call(nn.Identity(), q, k, v, Scores(mask=mask, **scores))  # type: ignore[arg-type]


def packed(lengths: list[int], context: int = 12) -> PackedRows:
    (rows,) = pack([(number, list(range(length))) for number, length in enumerate(lengths)], RowFormat(context), 999)
    return rows


def attention_output(rows: PackedRows, call: Call) -> tuple[Tensor, list[DocumentBlock]]:
    z, blocks = torch.full((*call.q.shape[:3], WIDTH), float("nan"), dtype=torch.float64), []
    for block, part in DocumentSplit.of(rows).calls(call):
        z[block.row_index, :, block.start : block.stop] = plain(part)
        blocks.append(block)
    return z, blocks


def alone(call: Call, piece: Piece) -> Tensor:
    """Attention within one piece, by definition."""
    inside = slice(piece.start, piece.stop)
    q, k, v = (tensor[piece.row, :, inside] for tensor in (call.q, call.k, call.v))
    group = HEADS // KV
    scores = [(q[head] @ k[head // group].T) * WIDTH**-0.5 for head in range(HEADS)]
    length = piece.stop - piece.start
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    weights = [each.masked_fill(~seen, float("-inf")).softmax(-1) for each in scores]
    return torch.stack([weight @ v[head // group] for head, weight in enumerate(weights)])


@pytest.mark.parametrize("separate_calls", [True, False])
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=1, max_size=9))
def test_every_piece_has_the_output_it_has_alone(separate_calls: bool, lengths: list[int]) -> None:
    rows = packed(lengths)
    call = a_call(rows, causal())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "MIN_MEAN_TOKENS", 0 if separate_calls else 10_000)
        z, blocks = attention_output(rows, call)
    for piece in rows.pieces:
        torch.testing.assert_close(z[piece.row, :, piece.start : piece.stop], alone(call, piece))
    if not separate_calls:
        assert blocks == [DocumentBlock(tuple(range(len(rows.ids))), 0, 12)]
