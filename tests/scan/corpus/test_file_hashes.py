"""Hashes of a corpus: by content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headscope.scan.corpus import documents
from headscope.scan.corpus.documents import FileHashes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_bytes(b"the cat " * 10)
    return tmp_path / "corpus.txt"


def test_a_hash_is_that_of_the_bytes_and_progress_counts_them(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(documents, "CHUNK_BYTES", 32)
    read: list[int] = []
    assert FileHashes().sha256(file, read.append) == hashlib.sha256(file.read_bytes()).hexdigest()
    assert read == [32, 32, 16]
