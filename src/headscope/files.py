"""Write files and folders atomically, and report stored files that cannot be parsed.

Data is written under a temporary name, flushed to the disk and renamed. After a kill or on a full disk, the previous
version is still there.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from headscope.errors import HeadscopeError, InputError, first_line

PART = ".part"
"""The suffix of a file or folder that is still being written."""
UNFINISHED = f".headscope{PART}"
"""The end of the name of an unfinished file, after its name; of a folder, after the number of the process too."""

_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # no link, no pipe
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_atomic(path: Path, data: bytes, hint: str | None = None) -> None:
    """Write a file completely or not at all. A link is followed. ``hint`` ends the message of an error."""
    try:
        target = path.resolve() if path.is_symlink() else path
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise InputError(f"{path} is a pipe or a device and would be replaced; give the name of a file")
        with _unfinished_file(target) as (part, file):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        _flush(target.parent)
    except OSError as error:
        why = f"no space for {len(data):,} bytes ({error.strerror})" if error.errno in _FULL else error.strerror
        left = hint or ("the previous file is unchanged" if path.exists() else "no file was left there")
        raise InputError(f"{path} could not be written: {why}; {left}") from error


@contextmanager
def _unfinished_file(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open the unfinished version of a file, emptied, with the mode of the file that is there; remove it on an error.

    What a kill left is written over. What another process or thread is writing is not: this one takes the next name.
    """
    for number in count():
        part = path.parent / (path.name + (f".{number}" if number else "") + UNFINISHED)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o666), "wb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, f"{part.name} is there and no file")
            if not _lock_file(file, part):
                continue
            try:
                file.truncate()
                with suppress(OSError):
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
                yield part, file
            except BaseException:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
                raise
            return


def _lock_file(file: IO[bytes], path: Path) -> bool:
    """Lock a file until it is closed; False if another holds it, or renamed or removed it since it was opened."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, and rename it to ``path`` at the end. ``path`` must be new or empty."""
    path = path.absolute()
    if path.resolve() == Path.cwd().resolve():
        raise InputError(f"{path} is the current folder and would be replaced; give a new one")
    _remove_abandoned(path.parent)
    part = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    held = None
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        held = _hold(part)
        yield part
        for file in (*part.rglob("*"), part):
            _flush(file)
        part.replace(path)
        _flush(path.parent)
    except Exception as error:
        if not isinstance(error, OSError) and "os error" not in str(error):  # how libraries in Rust report one
            raise
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} could not be written: {why}; nothing was left there, give another folder") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if held is not None:
            os.close(held)


@contextmanager
def sole_writer(folder: Path, refusal: str) -> Iterator[None]:
    """Make a folder and lock it against other writers, who get an error; remove a new one that stays empty."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    held = _hold(folder.resolve())
    if held is None and os.name == "posix":
        raise InputError(refusal)
    try:
        yield
    finally:
        if new:
            with suppress(OSError):  # it holds something
                folder.rmdir()
        if held is not None:
            os.close(held)


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished folders that no living process holds: what a kill left behind."""
    for part in folder.glob(f"*{UNFINISHED}"):
        held = _hold(part)
        if held is not None:
            shutil.rmtree(part, ignore_errors=True)
            os.close(held)


def _hold(folder: Path) -> int | None:
    """Lock a folder until the handle is closed or this process dies; None if it is taken or not a folder."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


@contextmanager
def parsing(what: str, hint: str) -> Iterator[None]:
    """Turn any exception while a stored file is parsed into an InputError that names the file and the way out."""
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:  # parsers raise many kinds at a damaged file
        raise InputError(f"{what} is damaged or in a different format ({first_line(error)}); {hint}") from error


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
