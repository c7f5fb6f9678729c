"""Files that are whole or not there: written beside their place, flushed to the disk, then renamed into it.

A process may be killed and a disk may fill at any moment. Whoever looks then finds the last file that was finished.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headscope.errors import HeadscopeError, InputError

PART = ".part"
"""What a file is called, after its own name, until it is finished."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: Path, data: bytes, kept: str | None = None) -> None:
    """All of the data under this name, or what stood there before. ``kept`` is what an error says about the rest."""
    aside = path.parent / (path.name + PART)  # a folder such as . has no name of its own
    try:
        try:
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        _flush(path.parent)
    except OSError as error:
        why = f"no room for {len(data):,} bytes ({error.strerror})" if error.errno in _FULL else error.strerror
        left = kept or ("the last one is as it was" if path.exists() else "there was none before")
        raise InputError(f"{path} could not be written: {why}; {left}") from error


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill with files. It takes its place when all are there; where it stands may be empty, or nothing."""
    path = path.absolute()
    if path.resolve() == Path.cwd().resolve():
        raise InputError(f"{path} is the folder you are in, and would be replaced; give a new one")
    aside = path.with_name(f"{path.name}.headscope{PART}")  # a name that nobody gives: what stands there is removed
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        yield aside
        for file in (*aside.rglob("*"), aside):
            _flush(file)
        aside.replace(path)
        _flush(path.parent)
    except Exception as error:
        if not isinstance(error, OSError) and "os error" not in str(error):  # how writers in Rust report the system's
            raise
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} could not be written: {why}; nothing of it is left, give another folder") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def reading(what: str, way_out: str) -> Iterator[None]:
    """Whatever goes wrong while a stored file is taken apart becomes one sentence: what it is, and the way out."""
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:  # readers of other projects raise what they like at a broken file
        why = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"{what} is broken, or is something else ({why}); {way_out}") from error


def _flush(path: Path) -> None:
    """What the system still holds of a file, or of a folder's names, goes to the disk."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
