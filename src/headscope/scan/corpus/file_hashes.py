"""Hash the files of a corpus by content, and keep the hashes with size and times so that a second check is cheap."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.files import write_atomic

CHUNK_BYTES = 2**20
SETTLED_SECONDS = 2.0
"""A file changed this recently is hashed again: it may change once more within one tick of its clock."""

Stamp = tuple[int, int, int, int, int]
"""Size, times of the last change of content and of entry, device and inode."""


class FileHashes:
    """Hashes of files; those of settled files are kept in ``cache``, a JSON file."""

    def __init__(self, cache: Path | None = None) -> None:
        self.cache = cache
        self._stamps: dict[Path, Stamp] = {}

    def sha256(self, paths: Iterable[Path], advance: Callable[[int], None]) -> list[str]:
        """Hash these files, or look up those that are as they were. ``advance`` is called with bytes read."""
        kept, settled, digests = self._load(), {}, []
        for path in paths:
            stamp = self._stamps[path] = _stamp(path)
            key = str(path.absolute())
            known = kept.get(key)
            if isinstance(known, list) and known[:-1] == list(stamp) and isinstance(known[-1], str):
                digests.append(known[-1])
            else:
                digests.append(_hash(path, advance))
            if time.time() - max(stamp[1:3]) / 1e9 > SETTLED_SECONDS:
                settled[key] = [*stamp, digests[-1]]
        if self.cache is not None and settled and settled != kept:
            write_atomic(self.cache, json.dumps(settled, sort_keys=True).encode())
        return digests

    def check_unchanged(self) -> None:
        """Refuse files that changed since they were hashed."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                raise InputError(f"{path} changed while it was read; scan again when nothing writes to it")

    def _load(self) -> dict[str, Any]:
        try:
            read = json.loads(self.cache.read_text(encoding="utf-8")) if self.cache is not None else {}
        except (OSError, ValueError):
            return {}
        return read if isinstance(read, dict) else {}


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or device, which can be read only once."""
    return not stat.S_ISREG(path.stat().st_mode)


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give another corpus") from error
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino


def _hash(path: Path, advance: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                advance(len(chunk))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give another corpus") from error
    return digest.hexdigest()
