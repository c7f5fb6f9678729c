"""Bytes become passages: for any chunks no text is lost, no word is split, and errors name their line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.scan.corpus import file_formats
from headscope.scan.corpus.documents import Corpus
from headscope.scan.corpus.file_formats import UnreadableError, decode, json_texts, parquet_texts, split_passages

SMALL = 16


@pytest.fixture(autouse=True)
def short_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passages of a few characters, so that a short text has many."""
    monkeypatch.setattr(file_formats, "PASSAGE_CHARACTERS", SMALL)


def chunked(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def joined(passages: list[tuple[bool, str]]) -> list[str]:
    """Documents, put together again from their passages."""
    found: list[str] = []
    for begins, text in passages:
        if begins:
            found.append("")
        found[-1] += text
    return found


LETTERS = st.text(alphabet="ab \n", max_size=120)


@settings(deadline=None)
@given(LETTERS, st.integers(1, 50))
def test_a_text_is_one_document_for_any_chunks(text: str, size: int) -> None:
    passages = list(split_passages(chunked(text, size), False))
    assert joined(passages) == ([text] if text else [])
    assert all(0 < len(passage) <= SMALL for _, passage in passages)


@settings(deadline=None)
@given(LETTERS, st.integers(1, 50))
def test_with_lines_every_line_is_a_document_for_any_chunks(text: str, size: int) -> None:
    passages = list(split_passages(chunked(text, size), True))
    assert [line for line in joined(passages) if line] == [line for line in text.split("\n") if line]
    assert all(len(passage) <= SMALL for _, passage in passages)


@settings(deadline=None)
@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=SMALL // 2 - 1), max_size=30))
def test_no_word_is_split_where_there_is_white_space(words: list[str]) -> None:
    found = [word for _, passage in split_passages(iter((" ".join(words),)), False) for word in passage.split()]
    assert found == words


def test_text_without_white_space_is_split_at_the_full_length() -> None:
    assert [passage for _, passage in split_passages(iter(("x" * 40,)), False)] == ["x" * 16, "x" * 16, "x" * 8]
    assert [passage for _, passage in split_passages(iter(("x" * 40 + "\n",)), True)] == ["x" * 16, "x" * 16, "x" * 8]


def test_text_before_an_unreadable_part_is_yielded_first() -> None:
    def torn() -> Iterator[str]:
        yield "one\ntw"
        raise UnreadableError(", line 2: torn")

    for lines, expected in ((True, ["one", "tw"]), (False, ["one\ntw"])):
        found: list[tuple[bool, str]] = []
        with pytest.raises(UnreadableError, match=", line 2: torn"):
            found.extend(split_passages(torn(), lines))
        assert joined(found) == expected


@settings(deadline=None)
@given(st.text(alphabet="aü世\U0001f40e\n", max_size=60), st.integers(1, 9), st.booleans())
def test_bytes_are_decoded_where_a_chunk_ends_inside_a_character(text: str, size: int, marked: bool) -> None:
    data = text.encode("utf-8-sig" if marked else "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_formats, "CHUNK_BYTES", size)
        assert "".join(decode(io.BytesIO(data))) == text


@settings(deadline=None)
@given(
    st.text(alphabet="aü\n", max_size=40), st.sampled_from([b"\xff", b"\xc3(", b"\x00", b"\xe4\xb8"]), st.integers(1, 9)
)
def test_an_undecodable_byte_is_reported_with_its_line_after_the_good_text(text: str, bad: bytes, size: int) -> None:
    found: list[str] = []
    line = text.count("\n") + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_formats, "CHUNK_BYTES", size)
        wrong = "a NUL byte" if bad == b"\x00" else f"byte 0x{bad[0]:02x} is not UTF-8; save the file as UTF-8"
        with pytest.raises(UnreadableError, match=f", line {line}: {wrong}"):
            found.extend(decode(io.BytesIO(text.encode() + bad)))
    assert "".join(found) == text


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r": cannot be opened \(No such file or directory\)"):
        list(decode(tmp_path / "gone.txt"))
    with pytest.raises(UnreadableError, match=r": cannot be opened \(Is a directory\)"):
        list(decode(tmp_path))


@settings(deadline=None)
@given(st.lists(st.text(alphabet='ab \n"\\{}', max_size=40), max_size=6), st.integers(1, 50))
def test_json_lines_are_read_for_any_chunks(texts: list[str], size: int) -> None:
    data = "\n\n".join(json.dumps({"n": 1, "body": text}) for text in texts)
    assert joined(list(json_texts(chunked(data, size), "body"))) == [text for text in texts if text]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ("1" * 5_000, "not JSON"),
        ("[1]", "no text in the field 'text'; it has list"),
        ("{}", "no text in the field 'text'; it has nothing"),
        ('{"a": 1, "text": null}', "no text in the field 'text'; it has 'a', 'text'"),
        (r'{"text": "ab\udc00"}', "half of a surrogate pair at character 2 of 'text'"),
    ],
)
def test_a_bad_line_is_raised_or_reported_with_its_number(line: str, said: str) -> None:
    good = '{"text": "good"}'
    data = f"\n{good}\n{line}\n{good}"
    with pytest.raises(UnreadableError, match=f", line 3: {said}"):
        list(json_texts(iter((data,)), "text"))
    reported: list[str] = []
    assert joined(list(json_texts(iter((data,)), "text", reported.append))) == ["good", "good"]
    assert len(reported) == 1
    assert reported[0].startswith(f", line 3: {said}")


def test_a_parquet_column_is_read_in_order_and_its_errors_are_reported(tmp_path: Path) -> None:
    texts = [f"text number {number}" for number in range(150)]
    pq.write_table(pa.table({"text": texts, "n": list(range(150)), "raw": [b"x"] * 150}), tmp_path / "a.parquet")
    assert joined(list(parquet_texts(tmp_path / "a.parquet", "text"))) == texts
    with pytest.raises(UnreadableError, match=": no column 'body'; it has text, n, raw"):
        list(parquet_texts(tmp_path / "a.parquet", "body"))
    with pytest.raises(UnreadableError, match=", row 1: int in the column 'n', not a text"):
        list(parquet_texts(tmp_path / "a.parquet", "n"))
    with pytest.raises(UnreadableError, match=", row 0: bytes in the column 'raw', not a text"):
        list(parquet_texts(tmp_path / "a.parquet", "raw"))


def test_half_of_a_surrogate_pair_in_a_list_is_reported_with_its_item() -> None:
    corpus = Corpus(["fine", "ab\ud800"])
    assert [passage.text for passage in corpus] == ["fine"]
    assert corpus.problems == ["the corpus, item 1: half of a surrogate pair at character 2"]


@pytest.mark.parametrize(("size", "passages"), [(8, 1), (9, 2), (16, 2), (17, 3)])
def test_a_passage_has_so_many_characters_at_most(monkeypatch: pytest.MonkeyPatch, size: int, passages: int) -> None:
    monkeypatch.setattr(file_formats, "PASSAGE_CHARACTERS", 8)
    found = list(file_formats.split_passages(("x" * size,)))
    assert "".join(text for _, text in found) == "x" * size
    assert [begins for begins, _ in found] == [True, *[False] * (passages - 1)]
    assert max(len(text) for _, text in found) <= 8


@pytest.mark.parametrize(
    ("text", "first"),
    [("abcdef ghij", "abcdef"), ("ab cdefghij", "ab cdefg"), ("abcd efghij", "abcd"), ("abcdefg\nhij", "abcdefg"),
     ("abcde f\nghi", "abcde f"), ("abcdefgh ij", "abcdefgh")],
)  # fmt: skip
def test_a_passage_ends_before_white_space_in_its_second_half(monkeypatch, text: str, first: str) -> None:
    monkeypatch.setattr(file_formats, "PASSAGE_CHARACTERS", 8)
    assert next(file_formats.split_passages((text,)))[1] == first


@pytest.mark.parametrize(("line", "refused"), [("x" * 10, False), ("x" * 11, True)])
def test_a_json_line_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch, line: str, refused: bool) -> None:
    monkeypatch.setattr(file_formats, "MAX_JSON_LINE", 10)
    chunks = ["a\n", line[:5], line[5:]]
    if refused:
        with pytest.raises(UnreadableError, match=r"^, line 2: longer than 10 characters; put such a text"):
            list(file_formats._lines(chunks))
    else:
        assert list(file_formats._lines([*chunks, "\nb"])) == ["a", line, "b"]


@pytest.mark.parametrize(
    ("packed", "unpacked", "refused"),
    [
        (1, 100, False),
        (1, 101, True),
        (2, 101, True),
        (3, 101, False),
        (0, 10_000, True),
        (20, 200, False),
        (3, 150, False),
    ],
)
def test_a_column_is_refused_where_no_text_is_so_repetitive(
    monkeypatch, packed: int, unpacked: int, refused: bool
) -> None:
    monkeypatch.setattr(file_formats, "MAX_COLUMN_BYTES", 100)
    monkeypatch.setattr(file_formats, "MOST_COMPRESSED", 50)
    assert_refused(packed, unpacked, refused)


@pytest.mark.parametrize(
    ("packed", "unpacked", "refused"),
    [(1, 2**26, False), (1, 2**26 + 1, True), (200_000, 10**8, False), (200_000, 10**8 + 1, True)],
)
def test_64_mib_of_text_may_not_unpack_five_hundredfold(packed: int, unpacked: int, refused: bool) -> None:
    assert_refused(packed, unpacked, refused)


def assert_refused(packed: int, unpacked: int, refused: bool) -> None:
    chunks = [
        SimpleNamespace(path_in_schema=name, total_compressed_size=1, total_uncompressed_size=10**9) for name in "ab"
    ]
    own = SimpleNamespace(path_in_schema="text", total_compressed_size=packed, total_uncompressed_size=unpacked)
    group = SimpleNamespace(column=lambda number: [*chunks, own][number])
    metadata = SimpleNamespace(num_row_groups=1, num_columns=3, row_group=lambda number: group)
    if refused:
        with pytest.raises(UnreadableError, match=f"row group 0: {packed:,} bytes that unpack to {unpacked:,};"):
            file_formats._refuse_bomb(metadata, "text")
    else:
        file_formats._refuse_bomb(metadata, "text")


def test_a_parquet_file_of_one_letter_is_refused_before_it_is_read(tmp_path: Path, monkeypatch) -> None:
    pq.write_table(pa.table({"text": ["x" * 2**16]}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert len("".join(text for _, text in parquet_texts(tmp_path / "a.parquet", "text"))) == 2**16
    monkeypatch.setattr(file_formats, "MAX_COLUMN_BYTES", 2**15)
    with pytest.raises(UnreadableError, match=r"^, row group 0: [\d,]+ bytes that unpack to [\d,]+; no text is so"):
        next(parquet_texts(tmp_path / "a.parquet", "text"))


@pytest.mark.parametrize(("size", "refused"), [(2**26, False), (2**26 + 1, True)])
def test_a_json_line_has_64_mi_characters_at_most(size: int, refused: bool) -> None:
    chunks = ["x" * 2**20] * (size // 2**20) + ["x"] * (size % 2**20)
    if refused:
        with pytest.raises(UnreadableError, match=r"^, line 1: longer than 67,108,864 characters; put such a text"):
            list(file_formats._lines(chunks))
    else:
        assert [len(line) for line in file_formats._lines(chunks)] == [size]


def test_a_text_that_fits_a_passage_is_one_passage() -> None:
    text = "0123456789 abcde"
    assert len(text) == SMALL
    assert list(split_passages((text,))) == [(True, text)]
    assert list(split_passages(("a\nb",))) == [(True, "a\nb")], "one document unless lines are"


def test_files_are_closed_after_reading_and_streams_are_left_to_who_opened_them(tmp_path: Path, monkeypatch) -> None:
    (file := tmp_path / "a.txt").write_text("text")
    opened, plain = [], Path.open

    def opening(self: Path, *how: str) -> object:
        opened.append(plain(self, *how))
        return opened[-1]

    monkeypatch.setattr(Path, "open", opening)
    assert list(decode(file)) == ["text"]
    assert [each.closed for each in opened] == [True]
    stream = io.BytesIO(b"text")
    assert list(decode(stream)) == ["text"]
    assert not stream.closed
