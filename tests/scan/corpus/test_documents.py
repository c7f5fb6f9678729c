"""Documents are read from every kind of file; unreadable parts are reported with file and line, after the rest."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headscope.errors import InputError
from headscope.scan.corpus.documents import Corpus, FileHashes
from headscope.scan.corpus.file_formats import PASSAGE_CHARACTERS

DOCUMENTS = ["The first text.\nTwo lines.", "A second: Grüße, 世界.", "third"]
JSONL = "\n".join(json.dumps({"text": text, "n": 1}) for text in DOCUMENTS) + "\n"


def documents(source: Any, **options: Any) -> list[str]:
    return documents_of(Corpus(source, **options))


def documents_of(corpus: Corpus) -> list[str]:
    found: list[str] = []
    for passage in corpus:
        if passage.document == len(found):
            found.append("")
        found[passage.document] += passage.text
    return found


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".zst", zstd)],
)
def test_json_lines_compressed_or_not(tmp_path: Path, suffix: str, compress: Any) -> None:
    path = tmp_path / f"corpus.jsonl{suffix}"
    path.write_bytes(compress(JSONL.encode()))
    assert documents(str(path)) == DOCUMENTS


def test_parquet_and_another_field(tmp_path: Path) -> None:
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.table({"body": [*DOCUMENTS, None]}), path)
    assert documents(path, field="body") == DOCUMENTS


def test_a_text_file_is_one_document_or_one_per_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\n two \nthree", encoding="utf-8-sig")
    assert documents(path) == ["one\n\n two \nthree"]
    assert documents(path, lines=True) == ["one", " two ", "three"]


def test_folders_patterns_lists_and_iterables(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, text in (("b.txt", "second"), ("a.txt", "first"), ("deep/c.md", "third"), (".hidden", "no")):
        (tmp_path / name).write_text(text)
    assert documents(tmp_path) == ["first", "second", "third"]
    assert documents(str(tmp_path / "*.txt")) == ["first", "second"]
    assert documents(str(tmp_path / "**/*.*")) == ["first", "second", "third"], "** is any number of folders, also none"
    assert documents([tmp_path / "b.txt", tmp_path / "a.txt"]) == ["second", "first"]
    assert documents(text for text in DOCUMENTS) == DOCUMENTS
    assert documents([{"text": "from a mapping"}]) == ["from a mapping"]


def test_standard_input_as_text_and_as_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, found in (("plain text\nmore", ["plain text\nmore"]), (JSONL, DOCUMENTS)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert documents("-") == found


@pytest.mark.parametrize("text", ["{ a brace, and no field", 'he wrote "text": twice', '[{"text": "a list"}]'])
def test_standard_input_that_only_looks_like_json_is_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert documents("-") == [text]


def test_a_datasets_dataset_streaming_or_not() -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install headscope[data]")
    table = datasets.Dataset.from_dict({"text": DOCUMENTS})
    assert documents(table) == DOCUMENTS
    assert documents(table.to_iterable_dataset()) == DOCUMENTS
    with pytest.raises(InputError, match=r"not a table of train; choose one of them, as in dataset\['train'\]"):
        Corpus(datasets.DatasetDict({"train": table}))


GOOD = (json.dumps({"text": "good one"}) + "\n").encode()

BROKEN = [
    ("bad.jsonl", GOOD + b"{not json\n" + GOOD, "bad.jsonl, line 2: not JSON"),
    ("bad.jsonl", GOOD + b'{"body": "x"}\n', "bad.jsonl, line 2: no text in the field 'text'; it has 'body'"),
    ("bad.jsonl", GOOD + b'{"text": 7}\n', "bad.jsonl, line 2: no text in the field 'text'"),
    ("bad.jsonl", GOOD + rb'{"text": "\ud800 half"}' + b"\n", "bad.jsonl, line 2: half of a surrogate pair"),
    ("bad.txt", b"good one\nand \xff", "bad.txt, line 2: byte 0xff is not UTF-8"),
    ("bad.txt", b"good one\n\x00\x01\x02", "bad.txt, line 2: a NUL byte: this is binary data"),
    ("bad.jsonl.gz", gzip.compress(GOOD * 5_000, mtime=0)[:-20], "bad.jsonl.gz: broken after what was read so far"),
    ("bad.jsonl.xz", lzma.compress(GOOD * 9)[:-20], "bad.jsonl.xz: broken after"),
    ("bad.jsonl.zst", zstd(GOOD * 9)[:-20], "bad.jsonl.zst: broken after"),
    ("bad.txt.gz", b"not gzip at all", "bad.txt.gz: broken after what was read so far .Not a gzipped file"),
    ("bad.parquet", b"PAR1 no", "bad.parquet, row 0: "),
]


@pytest.mark.parametrize(("name", "data", "said"), BROKEN)
def test_unreadable_input_is_reported_with_file_and_line_after_the_good_documents(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "later.txt").write_text("later")
    stops = Corpus(tmp_path)
    found = documents_of(stops)
    assert all("good one" in text for text in found)
    assert bool(found) == (b"good" in data or name == "bad.jsonl.gz")
    assert len(stops.problems) == 1
    assert re.search(said, stops.problems[0])
    skips = Corpus(tmp_path, broken="skip")
    assert documents_of(skips)[-1] == "later"
    assert re.search(said, skips.problems[0])


class LongLine:
    """A stream that makes one line of words up as it is read, and counts its bytes."""

    def __init__(self, size: int) -> None:
        self.left, self.n_read = size, 0

    def read(self, size: int) -> bytes:
        size = min(size, self.left)
        self.left, self.n_read = self.left - size, self.n_read + size
        return (b"word " * (size // 5 + 1))[:size]

    def close(self) -> None: ...


@pytest.mark.parametrize("lines", [False, True])
def test_a_line_of_any_length_is_never_held_whole(monkeypatch: pytest.MonkeyPatch, lines: bool) -> None:
    stream, n_given, held = LongLine(24 * 2**20), 0, 0
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    corpus = Corpus("-", lines=lines)
    for passage in corpus:
        assert len(passage.text) <= PASSAGE_CHARACTERS
        held = max(held, stream.n_read - n_given)
        n_given += len(passage.text)
    assert (corpus.n_documents, n_given) == (1, 24 * 2**20)
    assert held <= 4 * PASSAGE_CHARACTERS, "read but not yet passed on"


def test_a_json_line_that_is_too_long_is_reported_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headscope.scan.corpus.file_formats.MAX_JSON_LINE", 200_000)
    (tmp_path / "a.jsonl").write_bytes(GOOD + json.dumps({"text": "x" * 300_000}).encode())
    corpus = Corpus(tmp_path / "a.jsonl")
    assert documents_of(corpus) == ["good one"]
    assert "a.jsonl, line 2: longer than 200,000 characters" in corpus.problems[0]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere/at/all.txt", r"nowhere/at/all.txt: no such file, folder or pattern \(in Python, texts themselves"),
        (b"bytes", "bytes is not a corpus"),
        (7, "int is not a corpus"),
    ],
)
def test_sources_that_are_not_a_corpus_are_refused(source: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Corpus(source)


def test_what_a_corpus_is_for_the_recipe(tmp_path: Path) -> None:
    for name, text in (("b.txt", "two"), ("a.txt", "first"), (".hidden", "no")):
        (tmp_path / name).write_text(text)
    corpus = Corpus(tmp_path)
    found = corpus.identity(FileHashes(), lambda _: None)
    assert [(entry["file"], entry["bytes"]) for entry in found] == [("a.txt", 5), ("b.txt", 3)]
    assert found[0]["sha256"] == hashlib.sha256(b"first").hexdigest()
    assert (corpus.n_bytes, corpus.known_by_reading) == (8, False)


class Fingerprinted:
    """A dataset of the library datasets has one."""

    _fingerprint = "abc"

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter([{"text": "a"}])


class Odd(Fingerprinted):
    """One whose fingerprint says nothing."""

    def __init__(self, fingerprint: object) -> None:
        self._fingerprint = fingerprint  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("source", "identity", "by_reading"),
    [
        (Odd(7), [{"dataset": "Odd"}], True),
        (Odd(""), [{"dataset": "Odd"}], True),
        (Odd(None), [{"dataset": "Odd"}], True),
        ("-", [{"stream": "standard input"}], True),
        (iter(["a"]), [{"dataset": type(iter([])).__name__}], True),
        (Fingerprinted(), [{"dataset": "Fingerprinted", "fingerprint": "abc"}], False),
        ([{"text": "a"}], [{"dataset": "list"}], True),
    ],
)
def test_a_corpus_without_files_is_known_by_what_it_says_or_by_reading(source, identity, by_reading) -> None:
    corpus = Corpus(source)
    assert corpus.identity(FileHashes(), lambda _: None) == identity
    assert (corpus.known_by_reading, corpus.n_bytes) == (by_reading, None)
