"""Bytes become passages: for any chunks no text is lost, and errors name their line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.scan.corpus import file_formats
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
