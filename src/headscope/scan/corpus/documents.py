"""Read the documents of a corpus: files, folders, patterns, standard input, datasets, or any iterable of texts.

Text is read in passages of bounded length, so one line of a gigabyte takes no more memory than a short one. An
unreadable part is reported with file and line; the documents before it are kept.
"""

from __future__ import annotations

import glob
import hashlib
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from headscope.errors import InputError
from headscope.names import writable
from headscope.scan.corpus.file_formats import UnreadableError, decode, json_texts, parquet_texts, split_passages

COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
JSON_LINES = (".jsonl", ".ndjson", ".json")


class Passage(NamedTuple):
    """Consecutive text of one document. Passages with the same document number belong together."""

    document: int
    text: str


class Corpus:
    """A source of documents. Iterating gives passages; afterwards ``problems`` lists what could not be read.

    ``field`` names the text in JSON, Parquet and datasets; with ``lines``, every line of a text file is a document;
    ``broken`` says whether to "stop" at an unreadable part or to "skip" it.
    """

    def __init__(self, source: Any, *, field: str = "text", lines: bool = False, broken: str = "stop") -> None:
        self.source, self.field, self.lines, self.broken = source, field, lines, broken
        self.problems: list[str] = []
        self.n_documents = 0
        self._files = _find_files(source)

    def identity(self, hashes: FileHashes, advance: Callable[[int], None]) -> list[dict[str, Any]]:
        """What this corpus is, for the recipe: hashes of files and of texts given as a list, a dataset's fingerprint.

        Without any of them (``known_by_reading``), a corpus is known only by what was read.
        """
        if self._files is not None:
            return [
                {"stream": "a pipe"}
                if _is_stream(path)
                else {
                    "file": writable(path.name),
                    "bytes": path.stat().st_size,
                    "sha256": hashes.sha256(path, advance),
                }
                for path in self._files
            ]
        if self.source == "-":
            return [{"stream": "standard input"}]
        if self._is_list_of_texts:
            return [{"texts": len(self.source), "sha256": _hash_texts(self.source)}]
        fingerprint = self._fingerprint
        return [{"dataset": type(self.source).__name__} | ({"fingerprint": fingerprint} if fingerprint else {})]

    @property
    def known_by_reading(self) -> bool:
        """Whether a corpus can only be identified by reading it, as with a pipe or a Python iterable."""
        if self._files is not None:
            return any(_is_stream(path) for path in self._files)
        return not self._is_list_of_texts and not self._fingerprint

    @property
    def n_bytes(self) -> int | None:
        """The size of all files together."""
        return None if self._files is None else sum(path.stat().st_size for path in self._files)

    @property
    def _is_list_of_texts(self) -> bool:
        return (
            self.source != "-"
            and isinstance(self.source, Sequence)
            and all(isinstance(text, str) for text in self.source)
        )

    @property
    def _fingerprint(self) -> str | None:
        """The fingerprint of a dataset of the library datasets."""
        found = getattr(self.source, "_fingerprint", None)
        return found if isinstance(found, str) else None

    def __iter__(self) -> Iterator[Passage]:
        for name, texts in self._sources():
            try:
                yield from self._numbered(texts)
            except UnreadableError as error:
                self.problems.append(f"{name}{error}")
                if self.broken == "stop":
                    return

    def _sources(self) -> Iterator[tuple[str, Iterator[tuple[bool, str]]]]:
        """Names and passages of all files; each passage with whether it begins a document."""
        if self._files is not None:
            for path in self._files:
                yield writable(str(path)), self._file_texts(path)
        elif self.source == "-":
            yield "standard input", self._stream_texts("standard input", decode(sys.stdin.buffer), None)
        else:
            yield "the corpus", self._item_texts(self.source)

    def _numbered(self, texts: Iterator[tuple[bool, str]]) -> Iterator[Passage]:
        """Number the documents, leaving out empty ones."""
        opened = False
        for begins, text in texts:
            opened = opened and not begins
            if not text.strip():
                continue
            self.n_documents += not opened
            opened = True
            yield Passage(self.n_documents - 1, text)

    def _file_texts(self, path: Path) -> Iterator[tuple[bool, str]]:
        plain = path.with_suffix("") if path.suffix in COMPRESSED else path
        if plain.suffix == ".parquet":
            return parquet_texts(path, self.field)
        return self._stream_texts(str(path), decode(path), plain.suffix)

    def _stream_texts(self, name: str, chunks: Iterator[str], suffix: str | None) -> Iterator[tuple[bool, str]]:
        first = next(chunks, "")
        whole = chain((first,), chunks)
        looks_like_json = first.lstrip()[:1] == "{" and f'"{self.field}"' in first
        if suffix in JSON_LINES or (suffix is None and looks_like_json):
            note = lambda problem: self.problems.append(name + problem)  # noqa: E731
            yield from json_texts(whole, self.field, note if self.broken == "skip" else None)
        else:
            yield from split_passages(whole, self.lines)

    def _item_texts(self, items: Iterable[Any]) -> Iterator[tuple[bool, str]]:
        for number, item in enumerate(items):
            text = item.get(self.field) if isinstance(item, Mapping) else item
            if not isinstance(text, str):
                has = f" with {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
                wanted = f"a document is a str, or has a field {self.field!r}"
                raise UnreadableError(f", item {number}: {type(item).__name__}{has}; {wanted}")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise UnreadableError(
                    f", item {number}: half of a surrogate pair at character {error.start}"
                ) from error
            yield from split_passages((text,))


def _hash_texts(texts: Sequence[str]) -> str:
    """Hash a list of texts. Where one holds the separator, lengths are hashed too: no two lists have one hash."""
    lengths = [f"{len(text)} " for text in texts] if any("\0" in text for text in texts) else []
    return hashlib.sha256("\0".join([*lengths, *texts]).encode("utf-8", "surrogatepass")).hexdigest()


def _find_files(source: Any) -> list[Path] | None:
    """The files that a source names, sorted; None for standard input and for iterables of texts."""
    if isinstance(source, Sequence) and source and all(isinstance(item, Path) for item in source):
        if Path("-") in source:
            raise InputError(
                f"- is standard input, and cannot be combined with files; leave out the {len(source) - 1} others"
            )
        return [path for item in source for path in _find_files(item) or []]
    if not isinstance(source, str | Path):
        _check_iterable_of_texts(source)
        return None
    if str(source) == "-":
        return None
    path = Path(source)
    if path.is_dir():
        inside = ((file, file.relative_to(path).parts) for file in path.rglob("*") if file.is_file())
        found = sorted(file for file, parts in inside if not any(part.startswith(".") for part in parts))
        problem = f"the folder {source} holds no files"
    elif path.exists():
        return [path]
    else:
        matching = sorted(Path(name) for name in glob.glob(str(source), recursive=True))  # noqa: PTH207 - patterns may be absolute
        found = [file for file in matching if file.is_file()]
        problem = f"{_short(source)}: no such file, folder or pattern (in Python, texts themselves go into a list)"
    if not found:
        raise InputError(problem)
    return found


def _check_iterable_of_texts(source: Any) -> None:
    if isinstance(source, Mapping):
        names = ", ".join(map(str, source)) or "nothing"
        raise InputError(f"a corpus is documents, not a table of {names}; choose one of them, as in dataset['train']")
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise InputError(
            f"{type(source).__name__} is not a corpus; give a path, a pattern, '-', or an iterable of texts"
        )


def _short(source: Any) -> str:
    text = str(source)
    return text if len(text) <= 80 else text[:77] + "…"


CHUNK_BYTES = 2**20

Stamp = tuple[int, int, int, int, int]
"""Size, times of the last change of content and of entry, device and inode."""


class FileHashes:
    """Hashes of files, and what these looked like when they were hashed."""

    def __init__(self) -> None:
        self._stamps: dict[Path, Stamp] = {}

    def sha256(self, path: Path, advance: Callable[[int], None]) -> str:
        """Hash this file. ``advance`` is called with bytes read."""
        self._stamps[path] = _stamp(path)
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    advance(len(chunk))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give another corpus") from error
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Refuse files that changed since they were hashed."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                raise InputError(f"{path} changed while it was read; scan again when nothing writes to it")


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or device, which can be read only once."""
    return not stat.S_ISREG(path.stat().st_mode)


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give another corpus") from error
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino
