"""Files and folders are written atomically. Kills are in tests/security/test_killed_saves.py."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.files import UNFINISHED, atomic_folder, write_atomic


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_file_replaces_the_previous_one_and_what_a_kill_left(tmp_path: Path) -> None:
    (tmp_path / f"a.html{UNFINISHED}").write_bytes(b"half of an earlier")
    for data in (b"old", b"new and longer", b""):
        write_atomic(tmp_path / "a.html", data)
        assert content(tmp_path) == {"a.html": data}


@pytest.mark.parametrize(
    ("before", "left"), [(b"old", "the previous file is unchanged"), (None, "no file was left there")]
)
@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSPC, r"no space for 2,000,000 bytes \(No space left on device\)"),
        (errno.EDQUOT, r"no space for 2,000,000 bytes \(Disk quota exceeded\)"),
        (errno.EFBIG, r"no space for 2,000,000 bytes \(File too large\)"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_failed_write_reports_the_reason_and_what_is_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str, before: bytes | None, left: str
) -> None:
    file = tmp_path / "c.bin"
    if before is not None:
        file.write_bytes(before)
    monkeypatch.setattr(os, "fsync", failing(OSError(number, os.strerror(number))))
    with pytest.raises(InputError, match=rf"c\.bin could not be written: {why}; {left}\n"):
        write_atomic(file, bytes(2_000_000))
    with pytest.raises(InputError, match=rf"{why}; go on tomorrow\n"):
        write_atomic(file, bytes(2_000_000), "go on tomorrow")
    assert content(tmp_path) == ({} if before is None else {"c.bin": before})


def failing(error: BaseException):  # type: ignore[no-untyped-def]
    def fails(_: int) -> None:
        raise error

    return fails


def test_ctrl_c_while_writing_leaves_the_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a", b"new")
    assert content(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("place", ["file/inner", "nowhere/inner"])
def test_an_impossible_path_is_reported(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InputError, match=rf"{place} could not be written: (Not a directory|No such file)"):
        write_atomic(tmp_path / place, b"x")
    assert content(tmp_path) == {"file": b"mine"}


def test_data_is_flushed_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that is safe against power loss: flush the bytes, rename, flush the folder."""
    done: list[str] = []
    flush, replace = os.fsync, Path.replace

    def flushed(handle: int) -> None:
        done.append(f"flush {Path(f'/proc/self/fd/{handle}').readlink().name}")
        flush(handle)

    def renamed(self: Path, target: Path) -> Path:
        done.append(f"rename {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    write_atomic(tmp_path / "a", b"x")
    assert done == [f"flush a{UNFINISHED}", "rename a", f"flush {tmp_path.name}"]
    done.clear()
    with atomic_folder(tmp_path / "b") as part:
        (part / "inner").write_bytes(b"x")
    assert done == ["flush inner", f"flush {part.name}", "rename b", f"flush {tmp_path.name}"]


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "deep/model") as part:
        (part / "one").write_bytes(b"1")
        assert not (tmp_path / "deep/model").exists()
        (part / "two").write_bytes(b"2")
    assert content(tmp_path) == {"deep/model/one": b"1", "deep/model/two": b"2"}
    assert [inner.name for inner in (tmp_path / "deep").iterdir()] == ["model"]


def test_what_a_kill_left_of_a_folder_is_removed(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "model") as part:
        pass
    part.mkdir()
    (part / "old").write_bytes(b"half")
    with atomic_folder(tmp_path / "model") as again:
        assert again == part
        (again / "new").write_bytes(b"1")
    assert content(tmp_path) == {"model/new": b"1"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (RuntimeError("I/O error: File too large (os error 27)"), r"I/O error: File too large \(os error 27\)"),
    ],
)
def test_a_folder_that_cannot_be_written_leaves_no_files(tmp_path: Path, error: Exception, said: str) -> None:
    def fill() -> None:
        with atomic_folder(tmp_path / "model") as part:
            (part / "one").write_bytes(b"1")
            raise error

    with pytest.raises(InputError, match=rf"model could not be written: {said}; nothing was left there"):
        fill()
    assert list(tmp_path.iterdir()) == []
