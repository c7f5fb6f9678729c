"""Collect Python source code for training from the standard library and from permissively licensed wheels.

    python bench/source_corpus.py source.jsonl.xz --wheels wheels/

A wheel whose metadata names no permissive licence is an error. Vendored folders have other licences and are left out;
so are generated tables.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import lzma
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path

from headscope.errors import InputError

PERMISSIVE = re.compile(r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|ISC)\b", re.IGNORECASE)
RESTRICTIVE = re.compile(r"\b(L?GPL|GNU|MPL|Mozilla|CDDL|EUPL|Proprietary)\b", re.IGNORECASE)
VENDORED = re.compile(r"(^|/)(_?vendor(ed)?|extern(als?)?|third_?party|_vendored_packages|site-packages|typeshed)(/|$)")
LONGEST_FILE, SHORTEST_FILE, LONGEST_LINE = 150_000, 200, 400


@dataclass(frozen=True)
class Document:
    """One source file with its package, licence and path."""

    source: str
    licence: str
    path: str
    text: str


def licence_of(metadata: Message) -> str:
    """Read the licence: the SPDX expression, else the classifiers, else the first line of the free text."""
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    named = [str(value).split(" :: ")[-1] for value in metadata.get_all("Classifier", []) if "License ::" in str(value)]
    if named:
        return " AND ".join(named)
    return str(metadata.get("License") or "").strip().split("\n")[0][:80]


def is_permissive(licence: str) -> bool:
    return bool(PERMISSIVE.search(licence)) and not RESTRICTIVE.search(licence)


def is_written_by_hand(text: str) -> bool:
    """Tell source code from stubs, tables of numbers and other generated files."""
    if not SHORTEST_FILE <= len(text) <= LONGEST_FILE or max(map(len, text.splitlines())) > LONGEST_LINE:
        return False
    return sum(map(str.isdigit, text)) < 0.12 * len(text)


def standard_library() -> Iterator[Document]:
    """Read the running interpreter's modules, without its tests."""
    root = Path(sysconfig.get_path("stdlib"))
    version = ".".join(map(str, sys.version_info[:3]))
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).as_posix()
        if VENDORED.search(path) or re.search(r"(^|/)(tests?|idle_test|ensurepip|lib2to3/tests)/", path):
            continue
        yield Document(f"python {version}", "PSF-2.0", path, file.read_text(encoding="utf-8", errors="ignore"))


def wheel(file: Path) -> Iterator[Document]:
    """Read the Python files of one wheel; refuse it unless its metadata names a permissive licence."""
    if not zipfile.is_zipfile(file):
        raise InputError(f"{file.name} is not a wheel, or is incomplete: download it again")
    with zipfile.ZipFile(file) as archive:
        names = sorted(archive.namelist())
        record = next((name for name in names if name.endswith(".dist-info/METADATA")), None)
        if record is None:
            raise InputError(f"{file.name} is not a wheel: it has no .dist-info/METADATA")
        metadata = email.message_from_bytes(archive.read(record))
        licence = licence_of(metadata)
        if not is_permissive(licence):
            raise InputError(f"{file.name}: its licence is {licence!r}; only MIT, BSD, Apache, PSF and ISC are taken")
        for name in names:
            if name.endswith(".py") and not VENDORED.search(name):
                text = archive.read(name).decode("utf-8", errors="ignore")
                yield Document(f"{metadata['Name']} {metadata['Version']}", licence, name, text)


def distinct(documents: Iterable[Document], limit: int) -> Iterator[Document]:
    """Filter documents: hand-written, each text once, at most ``limit`` bytes per source."""
    seen: set[bytes] = set()
    taken: dict[str, int] = {}
    for document in documents:
        text = document.text.replace("\r\n", "\n")
        key = hashlib.sha256(re.sub(r"\s+", " ", text).encode()).digest()
        if key in seen or not is_written_by_hand(text):
            continue
        size = len(text.encode())
        if taken.get(document.source, 0) + size > limit:
            continue
        seen.add(key)
        taken[document.source] = taken.get(document.source, 0) + size
        yield Document(document.source, document.licence, document.path, text)


def gather(wheels: Iterable[Path], out: Path, *, limit: int = 6_000_000) -> dict[str, int]:
    """Write the corpus as compressed JSON lines; return the bytes taken from each source."""

    def everything() -> Iterator[Document]:
        yield from standard_library()
        for file in sorted(wheels, key=lambda file: file.name.lower()):
            yield from wheel(file)

    sizes: dict[str, int] = {}
    with lzma.open(out, "wt", encoding="utf-8", preset=9) as target:
        for document in distinct(everything(), limit):
            target.write(json.dumps(asdict(document)) + "\n")
            key = f"{document.source} ({document.licence})"
            sizes[key] = sizes.get(key, 0) + len(document.text.encode())
    return sizes


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file to write, .jsonl.xz")
    parser.add_argument("--wheels", type=Path, required=True, help="a folder of wheels, from pip download --no-deps")
    parser.add_argument("--limit", type=int, default=6_000_000, help="most bytes to take from one package")
    given = parser.parse_args(arguments)
    sizes = gather(given.wheels.glob("*.whl"), given.out, limit=given.limit)
    for source, size in sizes.items():
        sys.stdout.write(f"{size:>10,}  {source}\n")
    sys.stdout.write(f"{sum(sizes.values()):>10,}  bytes in all -> {given.out}\n")


if __name__ == "__main__":
    main()
