"""Packed rows hold every token once and in order, and split no document that fits a row."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.scan.corpus.packing import PackedRows, RowFormat, pack

LENGTHS = st.lists(st.integers(2, 70), min_size=1, max_size=60)


def packed(lengths: list[int], row_format: RowFormat, n_rows: int = 7) -> list[PackedRows]:
    return list(
        pack(((number, list(range(1, length + 1))) for number, length in enumerate(lengths)), row_format, n_rows)
    )


@given(LENGTHS, st.booleans(), st.booleans())
def test_every_token_is_packed_once_and_in_order(lengths: list[int], added: bool, share: bool) -> None:
    row_format = RowFormat(32, (900,), (901,), share) if added else RowFormat(32, share_rows=share)
    found: dict[int, dict[int, int]] = {}
    for rows in packed(lengths, row_format):
        for piece in rows.pieces:
            ids = rows.ids[piece.row, piece.start : piece.stop].tolist()
            if added:
                assert (ids[0], ids[-1]) == (900, 901)
                ids = ids[1:-1]
            assert ids == list(range(piece.offset + 1, piece.offset + 1 + len(ids)))
            found.setdefault(piece.document, {}).update(dict.fromkeys(range(piece.offset, piece.offset + len(ids)), 1))
    for number, length in enumerate(lengths):
        left_out = 1 if length % row_format.document_tokens == 1 else 0  # a single last token is not packed
        assert len(found[number]) == length - left_out


@given(LENGTHS)
def test_pieces_do_not_overlap_and_documents_that_fit_are_not_split(lengths: list[int]) -> None:
    for rows in packed(lengths, RowFormat(32)):
        taken = torch.zeros_like(rows.ids)
        for piece in rows.pieces:
            taken[piece.row, piece.start : piece.stop] += 1
            if lengths[piece.document] <= 32:
                assert (piece.offset, piece.stop - piece.start) == (0, lengths[piece.document])
        assert int(taken.max()) == 1
        assert bool((rows.ids[taken == 0] == 0).all())


def test_positions_restart_in_every_piece_and_piece_ids_differ() -> None:
    (rows,) = packed([3, 4], RowFormat(10))
    assert rows.positions().tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 1, 2]]
    assert rows.piece_ids().tolist() == [[0, 0, 0, 1, 1, 1, 1, -1, -1, -1]]


def test_rows_are_restored_from_bytes() -> None:
    (rows,) = packed([3, 40, 5], RowFormat(10), n_rows=99)
    again = PackedRows.from_bytes(rows.to_bytes())
    assert torch.equal(again.ids, rows.ids)
    assert again.pieces == rows.pieces
    assert again.to_bytes() == rows.to_bytes()
    joined = torch.cat([batch.ids for batch in rows.batches(2)])
    assert torch.equal(joined, rows.ids)


def test_a_document_may_be_given_in_parts() -> None:
    whole = list(pack([(0, list(range(50)))], RowFormat(16), 9))
    parts = list(pack([(0, list(range(20))), (0, list(range(20, 50)))], RowFormat(16), 9))
    assert [rows.to_bytes() for rows in whole] == [rows.to_bytes() for rows in parts]
