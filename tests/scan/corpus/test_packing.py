"""Packed rows hold every token once, in order, and no piece is cut that need not be."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.scan.corpus.packing import Frame, PackedRows, pack

LENGTHS = st.lists(st.integers(2, 70), min_size=1, max_size=60)


def packed(lengths: list[int], frame: Frame, rows_at_once: int = 7) -> list[PackedRows]:
    return list(
        pack(((number, list(range(1, length + 1))) for number, length in enumerate(lengths)), frame, rows_at_once)
    )


@given(LENGTHS, st.booleans(), st.booleans())
def test_every_token_is_there_once_and_in_place(lengths: list[int], framed: bool, share: bool) -> None:
    frame = Frame(32, (900,), (901,), share) if framed else Frame(32, share_rows=share)
    found: dict[int, dict[int, int]] = {}
    for rows in packed(lengths, frame):
        for piece in rows.pieces:
            ids = rows.ids[piece.row, piece.start : piece.stop].tolist()
            if framed:
                assert (ids[0], ids[-1]) == (900, 901)
                ids = ids[1:-1]
            assert ids == list(range(piece.offset + 1, piece.offset + 1 + len(ids)))
            found.setdefault(piece.document, {}).update(dict.fromkeys(range(piece.offset, piece.offset + len(ids)), 1))
    for number, length in enumerate(lengths):
        left_out = 1 if length % frame.room == 1 else 0  # a lone last token has nobody to look at
        assert len(found[number]) == length - left_out


@given(LENGTHS)
def test_pieces_do_not_overlap_and_documents_that_fit_are_not_cut(lengths: list[int]) -> None:
    for rows in packed(lengths, Frame(32)):
        taken = torch.zeros_like(rows.ids)
        for piece in rows.pieces:
            taken[piece.row, piece.start : piece.stop] += 1
            if lengths[piece.document] <= 32:
                assert (piece.offset, piece.stop - piece.start) == (0, lengths[piece.document])
        assert int(taken.max()) == 1
        assert bool((rows.ids[taken == 0] == 0).all())


def test_short_documents_share_rows_with_little_waste() -> None:
    lengths = [3 + (17 * i) % 40 for i in range(400)]
    rows = sum(len(part.ids) for part in packed(lengths, Frame(64)))
    assert sum(lengths) / (rows * 64) > 0.93


def test_places_begin_again_with_every_piece_and_owners_tell_pieces_apart() -> None:
    (rows,) = packed([3, 4], Frame(10))
    assert rows.places().tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 1, 2]]
    assert rows.owners().tolist() == [[0, 0, 0, 1, 1, 1, 1, -1, -1, -1]]


def test_rows_come_back_from_their_bytes() -> None:
    (rows,) = packed([3, 40, 5], Frame(10), rows_at_once=99)
    again = PackedRows.from_bytes(rows.to_bytes())
    assert torch.equal(again.ids, rows.ids)
    assert again.pieces == rows.pieces
    assert again.to_bytes() == rows.to_bytes()
    joined = torch.cat([batch.ids for batch in rows.batches(2)])
    assert torch.equal(joined, rows.ids)


def test_a_document_may_come_in_stretches() -> None:
    whole = list(pack([(0, list(range(50)))], Frame(16), 9))
    parts = list(pack([(0, list(range(20))), (0, list(range(20, 50)))], Frame(16), 9))
    assert [rows.to_bytes() for rows in whole] == [rows.to_bytes() for rows in parts]
