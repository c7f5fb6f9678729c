"""Hashes of a corpus: by content, kept for files that have settled, and made again for those that changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.scan.corpus import file_hashes
from headscope.scan.corpus.file_hashes import FileHashes, is_stream


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


def test_a_file_is_settled_two_seconds_after_its_last_change(file: Path, tmp_path: Path, monkeypatch) -> None:
    changed = max(file.stat().st_mtime_ns, file.stat().st_ctime_ns) / 1e9
    for later, kept in ((1.5, False), (2.5, True)):
        monkeypatch.setattr(file_hashes.time, "time", lambda later=later: changed + later)
        FileHashes(tmp_path / "hashes.json").sha256([file], lambda _: None)
        assert (tmp_path / "hashes.json").exists() is kept


def test_a_changed_file_is_hashed_again_though_its_size_is_the_same(file: Path, tmp_path: Path, monkeypatch) -> None:
    settle(monkeypatch, 60.0)
    cache = tmp_path / "hashes.json"
    first = FileHashes(cache).sha256([file], lambda _: None)
    before = file.stat()
    file.write_bytes(b"the dog " * 10)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert FileHashes(cache).sha256([file], lambda _: None) != first


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', '{"corpus": ["a"]}'])
def test_a_cache_that_is_damaged_is_made_again(file: Path, tmp_path: Path, monkeypatch, content: str) -> None:
    settle(monkeypatch, 60.0)
    cache = tmp_path / "hashes.json"
    cache.write_text(content)
    assert FileHashes(cache).sha256([file], lambda _: None) == FileHashes().sha256([file], lambda _: None)
    assert list(json.loads(cache.read_text())) == [str(file.absolute())]


def test_a_hash_in_the_cache_that_is_no_text_is_not_used(file: Path, tmp_path: Path, monkeypatch) -> None:
    settle(monkeypatch, 60.0)
    cache = tmp_path / "hashes.json"
    (expected,) = FileHashes(cache).sha256([file], lambda _: None)
    (kept,) = json.loads(cache.read_text()).values()
    cache.write_text(json.dumps({str(file.absolute()): [*kept[:-1], 5]}))
    assert FileHashes(cache).sha256([file], lambda _: None) == [expected]


def test_files_that_change_while_they_are_read_are_refused(file: Path) -> None:
    hashes = FileHashes()
    hashes.sha256([file], lambda _: None)
    hashes.check_unchanged()
    file.write_bytes(b"other")
    with pytest.raises(InputError, match="changed while it was read; scan again when nothing writes to it"):
        hashes.check_unchanged()
    file.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        hashes.check_unchanged()


def test_a_pipe_is_a_stream_and_a_file_is_none(file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert is_stream(tmp_path / "pipe")
    assert not is_stream(file)


def test_a_cache_that_says_the_same_is_not_written_again(file: Path, tmp_path: Path, monkeypatch) -> None:
    settle(monkeypatch, 60.0)
    cache = tmp_path / "hashes.json"
    FileHashes(cache).sha256([file], lambda _: None)
    written = cache.stat().st_ino
    FileHashes(cache).sha256([file], lambda _: None)
    assert cache.stat().st_ino == written


def test_a_file_dated_in_the_future_has_not_settled(file: Path, tmp_path: Path, monkeypatch) -> None:
    settle(monkeypatch, 60.0)
    os.utime(file, (time.time() + 3600, time.time() + 3600))
    FileHashes(tmp_path / "hashes.json").sha256([file], lambda _: None)
    assert not (tmp_path / "hashes.json").exists()


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder: cannot be read \(Is a directory\); give another corpus"):
        FileHashes().sha256([tmp_path / "folder"], lambda _: None)


def test_files_without_a_cache_are_hashed_each_time(file: Path, tmp_path: Path, monkeypatch) -> None:
    settle(monkeypatch, 60.0)
    read: list[int] = []
    hashes = FileHashes()
    assert hashes.sha256([file], read.append) == hashes.sha256([file], read.append)
    assert read == [80, 80]
    assert [each.name for each in tmp_path.iterdir()] == ["corpus.txt"]
