"""A census is of the text it was made from: another text is never answered with the old numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.scan.census import Census
from headscope.scan.corpus.documents import Corpus, FileHashes
from headscope.scan.options import ScanOptions
from headscope.scan.run import scan
from tests.scan.tiny import open_tiny

OPTIONS = ScanOptions(context=16, replicates=2, examples=1, threads=1)
TEXT, OTHER = "the cat sat on a mat; no dog came. " * 4, "the dog sat on a mat; no cat came. " * 4
A_DAY_AGO = 86_400 * 10**9


def census_bytes(folder: Path) -> bytes:
    return (folder / "census.parquet").read_bytes()


def old(file: Path, text: str, days: int = 1) -> Path:
    """Write a file as if that was days ago."""
    file.write_text(text, encoding="utf-8")
    then = file.stat().st_mtime_ns - days * A_DAY_AGO
    os.utime(file, ns=(then, then))
    return file


@pytest.mark.parametrize("same_time", [False, True])
def test_a_corpus_with_the_same_name_and_size_but_another_text_is_another_scan(tmp_path: Path, same_time: bool) -> None:
    corpus = old(tmp_path / "corpus.txt", TEXT)
    scan(open_tiny(), corpus, out=tmp_path / "out", options=OPTIONS)
    made = census_bytes(tmp_path / "out")
    if same_time:
        old(corpus, OTHER)
    else:
        corpus.write_text(OTHER, encoding="utf-8")
    with pytest.raises(InputError, match=r"holds a scan with another recipe \(corpus\[0\]\.sha256: .* choose another"):
        scan(open_tiny(), corpus, out=tmp_path / "out", options=OPTIONS)
    assert census_bytes(tmp_path / "out") == made
    old(corpus, TEXT, days=3)
    again = scan(open_tiny(), corpus, out=tmp_path / "out", options=OPTIONS)
    assert again.recipe == Census.load(tmp_path / "out").recipe, "the same text under another date is the same corpus"


def test_a_corpus_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    corpus = old(tmp_path / "corpus.txt", TEXT)

    class Changing:
        """Reads the text as its tokenizer does, and writes into the file meanwhile."""

        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def token_ids_of(self, texts: Sequence[str]) -> list[list[int]]:
            corpus.write_text(OTHER, encoding="utf-8")
            return self.inner.token_ids_of(texts)

    model = open_tiny()
    model.processor = Changing(model.processor)
    with pytest.raises(InputError, match=r"corpus\.txt changed while it was read; scan again"):
        scan(model, corpus, out=tmp_path / "out", options=OPTIONS)
    assert not (tmp_path / "out/census.parquet").exists()


@pytest.mark.parametrize("kind", ["generator", "records", "pipe"])
def test_what_can_only_be_read_is_compared_by_what_was_read(tmp_path: Path, kind: str) -> None:
    def corpus(text: str) -> object:
        if kind == "generator":
            return (part for part in [text, "a mat and"])
        if kind == "records":
            return [{"text": text}]
        pipe, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        return Path(f"/dev/fd/{pipe}")

    scan(open_tiny(), corpus(TEXT), out=tmp_path / "out", options=OPTIONS)
    made = census_bytes(tmp_path / "out")
    with pytest.raises(InputError, match="holds a scan of another text; give the same text"):
        scan(open_tiny(), corpus(OTHER), out=tmp_path / "out", options=OPTIONS)
    scan(open_tiny(), corpus(TEXT), out=tmp_path / "out", options=OPTIONS)
    assert census_bytes(tmp_path / "out") == made


def test_a_dataset_is_known_by_its_fingerprint() -> None:
    class Dataset:
        def __init__(self, fingerprint: object) -> None:
            self._fingerprint = fingerprint

        def __iter__(self) -> Iterator[str]:
            return iter([TEXT])

    one, two = (Corpus(Dataset(each)) for each in ("aa", "bb"))
    assert one.identity(FileHashes(), print) != two.identity(FileHashes(), print)
    assert not one.known_by_reading
    assert Corpus(Dataset(None)).known_by_reading


def test_no_two_lists_of_texts_have_one_hash() -> None:
    lists = (["a\0b", "c"], ["a", "b\0c"], ["a\0b\0c"], ["a", "b", "c"], ["a\0", "b", "c"])
    identities = [json.dumps(Corpus(texts).identity(FileHashes(), print)) for texts in lists]
    assert len(set(identities)) == len(lists)
