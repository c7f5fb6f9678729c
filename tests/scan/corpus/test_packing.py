"""Packed rows hold every token once and in order, and split no document that fits a row."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headscope.scan.corpus.packing import PackedRows, RowFormat, _rows, pack

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


def test_short_documents_share_rows_with_little_padding() -> None:
    lengths = [3 + (17 * i) % 40 for i in range(400)]
    rows = sum(len(part.ids) for part in packed(lengths, RowFormat(64)))
    assert sum(lengths) / (rows * 64) > 0.93


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


@pytest.mark.parametrize(
    ("lengths", "how", "pieces"),
    [
        ([8], {}, [[(0, 0, 8, 0, 0)]]),
        ([9], {}, [[(0, 0, 8, 0, 0)]]),
        ([10], {}, [[(0, 0, 8, 0, 0), (1, 0, 2, 0, 8)]]),
        ([1], {}, []),
        ([2], {}, [[(0, 0, 2, 0, 0)]]),
        ([6, 2], {}, [[(0, 0, 6, 0, 0), (0, 6, 8, 1, 0)]]),
        ([7, 2], {}, [[(0, 0, 7, 0, 0), (1, 0, 2, 1, 0)]]),
        ([3, 5, 3], {}, [[(0, 0, 3, 0, 0), (0, 3, 8, 1, 0), (1, 0, 3, 2, 0)]]),
        ([3, 4, 4], {}, [[(0, 0, 3, 0, 0), (0, 3, 7, 1, 0), (1, 0, 4, 2, 0)]]),
        ([2, 2], {"share_rows": False}, [[(0, 0, 2, 0, 0), (1, 0, 2, 1, 0)]]),
        ([7], {"tokens_before": (0,), "tokens_after": (9,)}, [[(0, 0, 8, 0, 0)]]),
        ([8], {"tokens_before": (0,), "tokens_after": (9,)}, [[(0, 0, 8, 0, 0), (1, 0, 4, 0, 6)]]),
        ([2, 2], {"tokens_before": (0,), "tokens_after": (9,)}, [[(0, 0, 4, 0, 0), (0, 4, 8, 1, 0)]]),
        ([8, 8, 8], {}, [[(0, 0, 8, 0, 0), (1, 0, 8, 1, 0)], [(0, 0, 8, 2, 0)]]),
    ],
)
def test_documents_are_split_and_share_rows_exactly_where_they_fit(lengths, how, pieces) -> None:
    rows = packed(lengths, RowFormat(8, **how), 2)
    assert [[tuple(piece) for piece in each.pieces] for each in rows] == pieces


@pytest.mark.parametrize(("documents", "closed"), [(32, 0), (33, 1)])
def test_so_many_rows_are_open_at_a_time(documents: int, closed: int) -> None:
    """Of documents that leave room and do not fit together, the fullest row is closed when one more is opened."""
    lengths = [5] * (documents - 1) + [6]
    rows = _rows(((number, [1] * length) for number, length in enumerate(lengths)), RowFormat(9))
    first = next(rows)
    assert first.used == (6 if closed else 5)


def test_batches_have_the_pieces_of_their_rows() -> None:
    (rows,) = pack([(n, [1, 2, 3]) for n in range(3)], RowFormat(4, share_rows=False), 8)
    assert [[tuple(piece) for piece in part.pieces] for part in rows.batches(2)] == [
        [(0, 0, 3, 0, 0), (1, 0, 3, 1, 0)], [(0, 0, 3, 2, 0)],
    ]  # fmt: skip
    assert [len(part.ids) for part in rows.batches(2)] == [2, 1]
    assert rows.n_tokens == 9
    (shared,) = pack([(n, [1, 2, 3]) for n in range(2)], RowFormat(8), 8)
    assert shared.n_tokens == 6
    assert rows.on(torch.device("cpu")) is rows.on(torch.device("cpu")), "copied once"
    assert torch.equal(rows.on(torch.device("cpu")).piece_ids, rows.piece_ids())


@pytest.mark.parametrize(
    ("lengths", "how", "order"),
    [
        ([14, 15], {}, [1, 0]),
        ([14, 14], {}, [0, 1]),
        ([10, 11], {"tokens_before": (900,), "tokens_after": (901,)}, [1, 0]),
        ([10, 10], {"tokens_before": (900,), "tokens_after": (901,)}, [0, 1]),
    ],
)
def test_a_row_that_no_piece_fits_into_is_closed_at_once(lengths: list[int], how, order: list[int]) -> None:
    """The smallest piece has two tokens and those that the tokenizer adds."""
    (rows,) = packed(lengths, RowFormat(16, **how))
    assert [piece.document for piece in rows.pieces] == order


def test_a_piece_goes_into_the_fullest_row_that_it_fits_into() -> None:
    (rows,) = packed([9, 11, 13, 4, 3], RowFormat(16), n_rows=9)
    shared = [{piece.document for piece in rows.pieces if piece.row == row} for row in range(3)]
    assert sorted(map(sorted, shared)) == [[0], [1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("row_format", "rows"),
    [
        (RowFormat(9), "positions run on through a row"),
        (RowFormat(9, first_position=0), "positions begin again with each piece"),
        (RowFormat(9, first_position=2, share_rows=False), "one piece a row"),
    ],
)
def test_the_recipe_says_how_rows_are_made(row_format: RowFormat, rows: str) -> None:
    assert row_format.to_recipe() == {
        "context": 9, "tokens_before_each_piece": [], "tokens_after_each_piece": [], "rows": rows,
    }  # fmt: skip


def test_rows_and_their_format_are_not_changed() -> None:
    (rows,) = packed([3], RowFormat(10))
    for made in (rows, RowFormat(10)):
        with pytest.raises(FrozenInstanceError):
            made.pieces = made.context = ()  # type: ignore[misc,union-attr,assignment]


def test_rows_without_pieces_are_padding() -> None:
    rows = PackedRows(torch.zeros(2, 3, dtype=torch.long), ())
    assert rows.positions().tolist() == [[0, 1, 2]] * 2
    assert rows.piece_ids().tolist() == [[-1, -1, -1]] * 2
    assert PackedRows.from_bytes(rows.to_bytes()).pieces == ()
