"""Hashes of a corpus: by content, kept for files that have settled, and made again for those that changed."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from headscope.scan.corpus import file_hashes
from headscope.scan.corpus.file_hashes import FileHashes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_bytes(b"the cat " * 10)
    return tmp_path / "corpus.txt"


def settle(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let so much time have passed since files were changed."""
    now = time.time()
    monkeypatch.setattr(file_hashes.time, "time", lambda: now + seconds)


def test_a_hash_is_that_of_the_bytes_and_progress_counts_them(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_hashes, "CHUNK_BYTES", 32)
    read: list[int] = []
    assert FileHashes().sha256([file], read.append) == [hashlib.sha256(file.read_bytes()).hexdigest()]
    assert read == [32, 32, 16]


@pytest.mark.parametrize(("seconds", "kept"), [(60.0, True), (-60.0, False)])
def test_the_hash_of_a_settled_file_is_looked_up(file: Path, tmp_path: Path, monkeypatch, seconds, kept) -> None:
    settle(monkeypatch, seconds)
    cache, read = tmp_path / "hashes.json", []
    first = FileHashes(cache).sha256([file], read.append)
    assert cache.exists() is kept
    assert FileHashes(cache).sha256([file], read.append) == first
    assert len(read) == (1 if kept else 2)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', '{"corpus": ["a"]}'])
def test_a_cache_that_is_damaged_is_made_again(file: Path, tmp_path: Path, monkeypatch, content: str) -> None:
    settle(monkeypatch, 60.0)
    cache = tmp_path / "hashes.json"
    cache.write_text(content)
    assert FileHashes(cache).sha256([file], lambda _: None) == FileHashes().sha256([file], lambda _: None)
    assert list(json.loads(cache.read_text())) == [str(file.absolute())]
