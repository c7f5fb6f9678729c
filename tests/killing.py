"""Kill a process at a chosen file operation, so that a test covers the states that a kill can leave on the disk.

A kill between two changes of files leaves what a kill just before the second one leaves. So it is enough to kill there,
and in the middle of a file.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")


def in_a_fork(work: Callable[[], object]) -> int:
    """Do this work in a forked process; return 0, 1 after an error, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def n_changes(folder: Path, work: Callable[[], object]) -> int:
    """Count how often this work opens a file to write, or renames, makes or removes one, below the folder."""
    read, write = os.pipe()

    def counted() -> None:
        changes: list[str] = []
        _listen(folder, lambda event: changes.append(event))
        work()
        os.write(write, str(len(changes)).encode())

    assert in_a_fork(counted) == 0
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return int(pipe.read())


def kill_before_change(number: int, folder: Path, work: Callable[[], object], by: int = signal.SIGKILL) -> int:
    """Kill this work just before its change with this number (from 0); return how it ended, as ``in_a_fork`` does."""

    def mortal() -> None:
        changes: list[str] = []

        def count(event: str) -> None:
            changes.append(event)
            if len(changes) > number:
                os.kill(os.getpid(), by)

        _listen(folder, count)
        work()

    return in_a_fork(mortal)


def kill_at_byte(size: int, work: Callable[[], object]) -> int:
    """Kill this work as soon as a file grows past this size; return how it ended, as ``in_a_fork`` does."""

    def mortal() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    return in_a_fork(mortal)


def _listen(folder: Path, tell: Callable[[str], None]) -> None:
    """Call ``tell`` before every change of a file below the folder, until this process ends."""

    def hear(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        named = (writes or event in CHANGES) and isinstance(args[0], str | bytes | os.PathLike)
        if named and Path(os.fsdecode(args[0])).is_relative_to(folder):
            tell(event)

    sys.addaudithook(hear)
