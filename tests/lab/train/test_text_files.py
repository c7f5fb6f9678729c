"""Text files: documents, held-out splits, chunked tokenization, and broken files."""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from headscope.errors import InputError
from headscope.lab.train import text_files
from headscope.lab.train.text_files import (
    MANY_DOCUMENTS,
    START_ID,
    Document,
    encode,
    read_documents,
    split,
    train_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["the cat sat on the mat and the cat saw it\n"] * 30, 300)


@pytest.mark.parametrize(("suffix", "fold"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_text_file_is_one_document_compressed_or_not(tmp_path: Path, suffix: str, fold: object) -> None:
    assert callable(fold)
    file = tmp_path / f"book.txt{suffix}"
    file.write_bytes(fold("Grüße,\n世界".encode()))
    assert read_documents(file) == [Document(file.name, "Grüße,\n世界")]


def test_lines_of_json_have_titles_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    lines = [{"title": "T", "text": "one"}, {"path": "p.py", "text": "two", "split": "train"}, {"text": " \n"},
             {"text": "three", "split": "valid"}]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    assert read_documents(tmp_path / "a.jsonl") == [
        Document("T", "one"), Document("p.py", "two"), Document("7", "three", held_out=True),
    ]  # fmt: skip


CORRUPT = bytearray(gzip.compress(bytes(range(256)) * 200, mtime=0))
CORRUPT[60:80] = b"\xff" * 20


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "fine"}\n{"text": 7}\n', "line 2: not a JSON object with a .text."),
        ("a.jsonl", b'{"text": null}\n', "line 1: not a JSON object with a .text."),
        ("a.jsonl", b'["text"]\n', "line 1: not a JSON object with a .text."),
        ("a.jsonl", rb'{"text": "\ud800"}', "line 1: not a JSON object with a .text. .*surrogates"),
        ("a.jsonl", b"[" * 100_000, "line 1: not a JSON object with a .text. .*recursion"),
        ("a.txt.gz", bytes(CORRUPT), "cannot be read: "),
        ("a.txt.gz", gzip.compress(b"text" * 99, mtime=0)[:-9], "cannot be read: Compressed file ended"),
        ("a.txt.gz", b"not gzip", "cannot be read: Not a gzipped file"),
        ("a.txt.xz", lzma.compress(b"text" * 99)[:-9], "cannot be read: Compressed file ended"),
        ("a.txt.xz", b"not xz", "cannot be read: Input format not supported"),
        ("a.txt", b" \n\t", "has no text; give a file with text"),
    ],
)
def test_a_broken_file_is_rejected(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}.* ?{message}"):
        read_documents(tmp_path / name)


def named(count: int) -> list[Document]:
    return [Document(str(number), f"text {number}" * 10) for number in range(count)]


@given(st.integers(1, MANY_DOCUMENTS - 1), st.integers(1, 200))
def test_of_few_documents_the_end_of_the_last_is_held_out(count: int, length: int) -> None:
    documents = [*named(count - 1), Document("last", "".join(chr(97 + at % 26) for at in range(length)))]
    training, held_out = split(documents)
    assert training[:-1] == documents[:-1]
    assert training[-1].text + held_out[0].text == documents[-1].text
    assert len(held_out[0].text) == length // 20
    assert {training[-1].title, held_out[0].title} == {"last"}


def test_every_document_begins_with_the_start_token_and_decodes(tokenizer: Tokenizer) -> None:
    documents = [Document("a", "the cat sat"), Document("b", "on 42 mäts\n"), Document("c", "it")]
    ids = encode(tokenizer, documents).tolist()
    found: list[list[int]] = []
    for token in ids:
        if token == START_ID:
            found.append([])
        else:
            found[-1].append(token)
    assert [tokenizer.decode(each) for each in found] == [document.text for document in documents]


@given(st.text(alphabet="ab \n", max_size=80))
def test_chunks_join_to_the_text_and_end_at_line_ends_where_possible(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK", 9)
        pieces = list(text_files._chunks(text))
    assert "".join(pieces) == text
    assert all(1 <= len(piece) <= 9 for piece in pieces)
    for piece, after in itertools.pairwise(pieces):
        assert after.startswith("\n") or "\n" not in piece[1:]
