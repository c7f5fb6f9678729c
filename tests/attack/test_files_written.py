"""What a saved file must not cost: another file, a link, a pipe, or another writer's bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.files import UNFINISHED, write_atomic
from tests.killing import in_a_fork


def test_what_one_writer_saved_is_not_what_another_was_writing_into_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process comes as far as it can before the first one renames its file, and dies before its own end."""
    file, flush = tmp_path / "look.html", os.fsync
    children: list[int] = []

    def second() -> None:
        monkeypatch.setattr(os, "fsync", lambda _: os._exit(0))
        write_atomic(file, b"second")

    def meanwhile(handle: int) -> None:
        flush(handle)
        if not children:
            children.append(in_a_fork(second))

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_atomic(file, b"first, and longer")
    assert children == [0]
    assert file.read_bytes() == b"first, and longer"


def test_a_file_of_the_user_with_part_behind_its_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model.json.part").write_bytes(b"half a download")
    write_atomic(tmp_path / "model.json", b"1")
    assert (tmp_path / "model.json.part").read_bytes() == b"half a download"


def test_a_link_is_written_through_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    for name in ("there", "not yet"):
        (tmp_path / name).symlink_to(tmp_path / "large" / name)
    (tmp_path / "large/there").write_bytes(b"old")
    for name in ("there", "not yet"):
        write_atomic(tmp_path / name, b"new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "large" / name).read_bytes() == b"new"


def test_a_link_or_pipe_where_the_unfinished_file_goes_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"kept")
    (tmp_path / f"a{UNFINISHED}").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / f"b{UNFINISHED}")
    for name in ("a", "b"):
        with pytest.raises(InputError, match=f"{name} could not be written"):
            write_atomic(tmp_path / name, b"1")
    assert (tmp_path / "precious").read_bytes() == b"kept"
    assert stat.S_ISFIFO((tmp_path / f"b{UNFINISHED}").stat().st_mode)


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """As root, ``--out /dev/null`` would take it from every program on the machine."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("pipe", "device"):
        with pytest.raises(InputError, match=f"{name} is a pipe or a device and would be replaced; give the name of"):
            write_atomic(tmp_path / name, b"1")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "device").readlink() == Path("/dev/null")


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    (tmp_path / "look.html").touch(0o600)
    write_atomic(tmp_path / "look.html", b"1")
    assert stat.S_IMODE((tmp_path / "look.html").stat().st_mode) == 0o600
