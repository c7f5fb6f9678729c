"""What a kill left behind is removed by the next run, and what a living process writes is not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headscope.errors import InputError
from headscope.files import UNFINISHED, atomic_folder
from tests.killing import in_a_fork


def save(folder: Path, kill: bool = False) -> None:
    with atomic_folder(folder) as part:
        (part / "weights").write_bytes(b"0" * 1000)
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.quick
@pytest.mark.slow
def test_a_killed_save_is_cleared_by_the_next_one_of_another_name(tmp_path: Path) -> None:
    assert in_a_fork(lambda: save(tmp_path / "smaller", kill=True)) == -signal.SIGKILL
    assert [file.name.endswith(UNFINISHED) for file in tmp_path.iterdir()] == [True]
    (tmp_path / f"older{UNFINISHED}").mkdir()
    save(tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def test_a_save_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    """By this process, by another one, and by one of a container whose number is not known here."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with atomic_folder(tmp_path / "theirs") as part:
                part.rename(part.with_name(f"theirs.999999999{UNFINISHED}"))
                os.write(ready[1], b"x")
                os.read(go[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    with atomic_folder(tmp_path / "mine"):
        save(tmp_path / "other")
        names = sorted(file.name for file in tmp_path.iterdir())
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *go):
        os.close(end)
    assert names == [f"mine.{os.getpid()}{UNFINISHED}", "other", f"theirs.999999999{UNFINISHED}"]


def test_a_link_of_that_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("kept")
    (tmp_path / "here").mkdir()
    (tmp_path / f"here/x{UNFINISHED}").symlink_to(tmp_path / "precious")
    (tmp_path / f"here/y{UNFINISHED}").write_text("somebody's file")
    save(tmp_path / "here/out")
    assert (tmp_path / "precious/file").read_text() == "kept"
    assert (tmp_path / f"here/y{UNFINISHED}").read_text() == "somebody's file"


def test_two_saves_of_one_name_do_not_mix(tmp_path: Path) -> None:
    """The second to finish finds the first one's folder, and says so."""

    def slow() -> None:
        with atomic_folder(tmp_path / "out") as part:
            (part / "first").write_text("1")
            assert in_a_fork(lambda: save(tmp_path / "out")) == 0

    with pytest.raises(InputError, match="could not be written"):
        slow()
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["weights"]
