"""Read the files of a census from its folder or from a zip archive, and write the archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from headscope.errors import InputError
from headscope.files import parsing

FILES = ("tally.safetensors", "examples.parquet", "report.html", "recipe.json", "census.parquet")
SUFFIX = ".zip"
LARGEST_FILE = 2**31  # bytes of one file in an archive; a tally of a thousand heads has some 30 million
UNPACKED, MOST_UNPACKED = 2**26, 1000  # bytes that any file may have; beyond, at most so many times its packed size
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every file in an archive, so that equal censuses are equal bytes


def read_census(path: Path) -> dict[str, bytes]:
    """The files of a census, by name."""
    return _read_archive(path) if path.suffix == SUFFIX and path.is_file() else _read_folder(path)


def _read_folder(path: Path) -> dict[str, bytes]:
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        unfinished = (path / "work").is_dir()
        hint = "its scan is not finished: run it again" if unfinished else "give the folder that a scan wrote"
        raise InputError(f"{path} holds no census ({missing[0]} is missing); {hint}")
    return {name: (path / name).read_bytes() for name in FILES}


def _read_archive(path: Path) -> dict[str, bytes]:
    with parsing(f"the census in {path}", "download it again"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in FILES:
            if name not in names:
                raise InputError(f"{path} holds no census ({name} is missing); give an archive that the page made")
            size, packed = archive.getinfo(name).file_size, archive.getinfo(name).compress_size
            if size > LARGEST_FILE:
                raise InputError(f"{name} in {path} has {size:,} bytes; a census's files have at most {LARGEST_FILE:,}")
            if size > max(UNPACKED, MOST_UNPACKED * packed):
                raise InputError(
                    f"{name} in {path} says that it unpacks from {packed:,} to {size:,} bytes; no census does"
                )
        return {name: archive.read(name) for name in FILES}


def archive_of(files: Mapping[str, bytes], *, smallest: bool = False, comment: str = "") -> bytes:
    """A zip archive of a census's files. The ``smallest`` one is LZMA, which not every program unpacks."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA if smallest else zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment.encode()
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, archive.compression)
    return buffer.getvalue()
