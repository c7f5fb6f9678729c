"""Pieces in calls of their own, or behind a mask, give what each piece gives alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from headscope.attention.masks import Mask, causal, documents, full, padding, window
from headscope.attention.observer import Call, plain
from headscope.attention.scores import Alibi, Scores
from headscope.scan.corpus import document_split
from headscope.scan.corpus.document_split import DocumentBlock, DocumentSplit, is_whole_call
from headscope.scan.corpus.packing import PackedRows, Piece, RowFormat, pack

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
        patch.setattr(document_split, "MIN_MEAN_TOKENS", 0 if separate_calls else 10_000)
        z, blocks = attention_output(rows, call)
    for piece in rows.pieces:
        torch.testing.assert_close(z[piece.row, :, piece.start : piece.stop], alone(call, piece))
    if not separate_calls:
        assert blocks == [DocumentBlock(tuple(range(len(rows.ids))), 0, 12)]


def test_pieces_at_the_same_columns_are_one_block() -> None:
    ids = torch.zeros(4, 10, dtype=torch.long)
    places = [(0, 0, 4), (0, 4, 10), (1, 0, 10), (2, 0, 4), (2, 4, 10), (3, 0, 4)]
    rows = PackedRows(ids, tuple(Piece(*place, number, 0) for number, place in enumerate(places)))
    blocks = DocumentSplit.of(rows).blocks
    assert blocks == (DocumentBlock((0, 2, 3), 0, 4), DocumentBlock((1,), 0, 10), DocumentBlock((0, 2), 4, 10))


@pytest.mark.parametrize(
    ("rows", "index"), [((0,), slice(0, 1)), ((2, 3, 4), slice(2, 5)), ((0, 2), [0, 2]), ((1, 2, 4), [1, 2, 4])]
)
def test_adjacent_rows_are_a_slice_and_others_a_list(rows: tuple[int, ...], index: slice | list[int]) -> None:
    assert DocumentBlock(rows, 0, 5).row_index == index


@pytest.mark.parametrize(
    ("length", "separate_calls"), [(document_split.MIN_MEAN_TOKENS, True), (document_split.MIN_MEAN_TOKENS - 1, False)]
)
def test_short_pieces_are_masked(length: int, separate_calls: bool) -> None:
    assert DocumentSplit.of(packed([length] * 3, context=length)).separate_calls is separate_calls


def n_parts(mask: Mask, **scores: object) -> int:
    rows = packed([6, 6, 12])
    whole = DocumentSplit(DocumentSplit.of(rows).blocks, rows.piece_ids(), separate_calls=True)
    return len(list(whole.calls(a_call(rows, mask, **scores))))


def test_only_scores_that_depend_on_distances_alone_are_split_into_calls() -> None:
    apart = documents(packed([6, 6, 12]).piece_ids())
    assert n_parts(causal()) == 3
    assert n_parts(full()) == 3
    assert n_parts(causal() & window(3)) == 3
    assert n_parts(causal() & apart) == 3
    assert n_parts(causal(), bias=Alibi(torch.ones(HEADS))) == 3
    assert n_parts(causal() & padding(torch.tensor([12, 12]))) == 1
    assert n_parts(causal(), bias=torch.zeros(1, 1, 12, 12)) == 1


def test_a_document_mask_is_dropped_inside_a_piece() -> None:
    rows = packed([6, 6, 12])
    call = a_call(rows, causal() & documents(rows.piece_ids()))
    parts = list(DocumentSplit(DocumentSplit.of(rows).blocks, rows.piece_ids(), separate_calls=True).calls(call))
    assert {repr(part.scores.mask) for _, part in parts} == {"causal()"}
    assert [tuple(part.q.shape) for _, part in parts] == [(1, 4, 6, 3), (1, 4, 12, 3), (1, 4, 6, 3)]
    assert not any(is_whole_call(block, call) for block, _ in parts)


def test_a_piece_that_is_the_whole_call_is_not_copied() -> None:
    rows = packed([12, 12])
    call = a_call(rows, causal())
    ((block, part),) = DocumentSplit(DocumentSplit.of(rows).blocks, rows.piece_ids(), separate_calls=True).calls(call)
    assert is_whole_call(block, call)
    assert part.q is call.q
    assert part.v is call.v


@pytest.mark.parametrize(
    ("lengths", "separate"), [((96, 96), True), ((96, 95), False), ((192, 2), True), ((95,), False)]
)
def test_pieces_of_96_tokens_on_average_are_calls_of_their_own(lengths: tuple[int, ...], separate: bool) -> None:
    assert DocumentSplit.of(packed(list(lengths), context=200)).separate_calls is separate


@pytest.mark.parametrize(
    ("block", "whole"),
    [
        (DocumentBlock((0, 1), 0, 12), True),
        (DocumentBlock((0,), 0, 12), False),
        (DocumentBlock((0, 1), 1, 12), False),
        (DocumentBlock((0, 1), 0, 11), False),
    ],
)
def test_a_block_is_the_whole_call_only_with_all_rows_and_columns(block: DocumentBlock, whole: bool) -> None:
    assert is_whole_call(block, a_call(packed([12, 12]), causal())) is whole


def test_a_split_is_not_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        DocumentSplit.of(packed([6])).separate_calls = True  # type: ignore[misc]
