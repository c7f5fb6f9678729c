"""The folder of a scan: packed rows go in, a tally a shard comes out, each file whole or not there at all.

A shard is finished when its tally stands under its name. Everything else can be made again, so a scan that was killed
goes on where it was, and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from headscope.errors import InputError
from headscope.files import reading, write_whole
from headscope.scan.corpus.packing import PackedRows
from headscope.scan.recipe import Recipe
from headscope.scan.tally.tally import Tally

KEPT = "what is finished is kept: scan again into the same folder when that is mended"


@dataclass(frozen=True)
class Packed:
    """What packing the corpus came to."""

    shards: int
    rows: int
    documents: int
    pieces: int
    tokens: int
    sha256: str
    problems: list[str]

    @property
    def unit(self) -> str:
        """What the bootstrap draws: documents, or the pieces they were cut into where documents are too few."""
        return "document" if self.documents >= FEW else "piece"


FEW = 20
"""With fewer documents than this, an interval over documents says little."""


class ScanFolder:
    """One scan's folder, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"

    @property
    def recipe_file(self) -> Path:
        return self.path / "recipe.json"

    @property
    def finished(self) -> bool:
        """Whether the census stands and nothing is left to do."""
        return (self.path / "census.parquet").exists() and not self.work.exists()

    def rows_file(self, shard: int) -> Path:
        return self.work / f"{shard:06d}.rows.safetensors"

    def tally_file(self, shard: int) -> Path:
        return self.work / f"{shard:06d}.tally.safetensors"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other scans out. The system lets go of the lock when a process dies, however it dies."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+b")
        except OSError as error:
            raise InputError(f"{self.path} cannot be written ({error.strerror}); choose another folder") from error
        with lock as file:
            if not _lock(file):
                raise InputError(f"another scan is writing into {self.path}; wait for it, or choose another folder")
            yield

    def start(self, recipe: Recipe) -> None:
        """Begin, or go on: refused if the folder holds a scan of another recipe."""
        if self.recipe_file.exists():
            there = Recipe.from_json(self.recipe_file.read_text(encoding="utf-8"))
            different = recipe.differences(there)
            if different:
                raise InputError(
                    f"{self.path} holds a scan with another recipe ({'; '.join(different[:4])}"
                    f"{'; …' if len(different) > 4 else ''}); use that one, or choose another folder"
                )
            return
        strange = sorted(file.name for file in self.path.iterdir() if file.name not in (".lock", "recipe.json.part"))
        if strange:
            raise InputError(f"{self.path} holds {strange[0]}, which is not a scan's; choose an empty folder")
        self.write(self.recipe_file, recipe.to_json().encode())

    def write(self, path: Path, data: bytes) -> None:
        """The whole file or none of it."""
        write_whole(path, data, KEPT)

    def packed(self) -> Packed | None:
        """What packing came to, if it was finished."""
        file = self.work / "packed.json"
        if not file.exists():
            return None
        with reading(str(file), f"remove {self.work} and scan again"):
            found = Packed(**json.loads(file.read_text(encoding="utf-8")))
            counts = (found.shards, found.rows, found.documents, found.pieces, found.tokens)
            there = sum(1 for _ in self.work.glob("*.rows.safetensors"))
            if (
                not all(type(count) is int for count in counts)
                or found.shards != there
                or type(found.problems) is not list
            ):
                raise ValueError(f"it speaks of {found.shards} shards, and there are {there}")
            if found.sha256 != self._digest():
                raise ValueError("the rows beside it are not those that were packed")
            return found

    def _digest(self) -> str:
        """Of all rows, as packing took it."""
        digest = hashlib.sha256()
        for file in sorted(self.work.glob("*.rows.safetensors")):
            digest.update(hashlib.sha256(file.read_bytes()).hexdigest().encode())
        return digest.hexdigest()

    def keep_rows(self, shard: int, rows: PackedRows) -> None:
        self.write(self.rows_file(shard), rows.to_bytes())

    def finish_packing(self, packed: Packed) -> None:
        self.write(self.work / "packed.json", json.dumps(asdict(packed), sort_keys=True).encode())

    def forget_rows(self) -> None:
        """Drop rows of a packing that was not finished."""
        self.work.mkdir(exist_ok=True)
        for file in self.work.iterdir():
            file.unlink()

    def abandon(self) -> None:
        """Nothing could be read: the folder is as free as before."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.recipe_file.unlink(missing_ok=True)

    def missing(self, packed: Packed) -> list[int]:
        return [shard for shard in range(packed.shards) if not self.tally_file(shard).exists()]

    def merged(self, packed: Packed) -> Tally:
        """All shards together, in their order: sums of floating-point numbers depend on it."""
        return merged(self._tally(shard) for shard in range(packed.shards))

    def rows(self, shard: int) -> PackedRows:
        """The packed rows of a shard."""
        with reading(str(self.rows_file(shard)), f"remove {self.work} and scan again"):
            return PackedRows.from_bytes(self.rows_file(shard).read_bytes())

    def _tally(self, shard: int) -> Tally:
        file = self.tally_file(shard)
        try:
            return Tally.from_bytes(file.read_bytes())
        except InputError as error:
            raise InputError(f"{file}: {error}: remove that file, and the same scan makes it") from error

    def clear(self) -> None:
        """Remove what the census no longer needs. Renamed first: half a work folder must not look like a whole one."""
        gone = self.path / ".gone"
        shutil.rmtree(gone, ignore_errors=True)
        if self.work.exists():
            self.work.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def merged(tallies: Iterable[Tally]) -> Tally:
    total: Tally | None = None
    for tally in tallies:
        total = tally if total is None else total.merge(tally)
    assert total is not None, "packing refuses an empty corpus"
    return total


def _lock(file: IO[bytes]) -> bool:
    """Whether this process now holds the file."""
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True
