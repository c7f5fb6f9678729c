"""Documents from wherever they are: files, folders, compressed or not, standard input, datasets, any iterable.

Text is read in passages of bounded size, so one line of a gigabyte costs no more memory than a short one. What cannot
be read is said in a sentence with file and line; the documents before it are kept.
"""

from __future__ import annotations

import glob
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.scan.corpus.file_formats import BrokenError, decoded, json_texts, parquet_texts, passages_of

FOLDED = (".gz", ".xz", ".bz2", ".zst")
JSON_LINES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Passage:
    """A stretch of one document's text. Passages that follow each other with the same number belong together."""

    document: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read: the field that holds the text, whether each line is a document, and what to do with broken input."""

    field: str = "text"
    lines: bool = False
    broken: str = "stop"


class Corpus:
    """A source of documents. Iterating gives passages; afterwards ``problems`` says what could not be read."""

    def __init__(self, source: Any, reading: Reading = Reading()) -> None:  # noqa: B008 - frozen
        self.source, self.reading = source, reading
        self.problems: list[str] = []
        self.n_documents = 0
        self._files = files_of(source)

    def identity(self) -> list[dict[str, Any]]:
        """What this corpus is, for the recipe: names and sizes of files, a hash of texts given as a list."""
        if self._files is not None:
            return [{"file": path.name, "bytes": path.stat().st_size} for path in self._files]
        if self.source == "-":
            return [{"stream": "standard input"}]
        if isinstance(self.source, Sequence) and all(isinstance(text, str) for text in self.source):
            digest = hashlib.sha256("\0".join(self.source).encode("utf-8", "surrogatepass")).hexdigest()
            return [{"texts": len(self.source), "sha256": digest}]
        fingerprint = getattr(self.source, "_fingerprint", None)
        return [{"dataset": type(self.source).__name__} | ({"fingerprint": str(fingerprint)} if fingerprint else {})]

    def __iter__(self) -> Iterator[Passage]:
        for name, texts in self._sources():
            try:
                yield from self._numbered(name, texts)
            except BrokenError as error:
                self.problems.append(f"{name}{error}")
                if self.reading.broken == "stop":
                    return

    def _sources(self) -> Iterator[tuple[str, Iterator[tuple[bool, str]]]]:
        if self._files is not None:
            for path in self._files:
                yield str(path), self._file_texts(path)
        elif self.source == "-":
            yield "standard input", self._stream_texts("standard input", decoded(sys.stdin.buffer), None)
        else:
            yield "the corpus", self._item_texts(self.source)

    def _numbered(self, name: str, texts: Iterator[tuple[bool, str]]) -> Iterator[Passage]:
        """Give every document its number; ``texts`` says with each passage whether a new document begins."""
        opened = False
        for begins, text in texts:
            opened = opened and not begins
            if not text.strip():
                continue
            if not opened:
                self.n_documents += 1
                opened = True
            yield Passage(self.n_documents - 1, text)

    def _file_texts(self, path: Path) -> Iterator[tuple[bool, str]]:
        plain = path.with_suffix("") if path.suffix in FOLDED else path
        if plain.suffix == ".parquet":
            return parquet_texts(path, self.reading.field)
        return self._stream_texts(str(path), decoded(path), plain.suffix)

    def _stream_texts(self, name: str, chunks: Iterator[str], suffix: str | None) -> Iterator[tuple[bool, str]]:
        first = next(chunks, "")
        whole = _chain(first, chunks)
        if suffix in JSON_LINES or (
            suffix is None and first.lstrip()[:1] == "{" and f'"{self.reading.field}"' in first
        ):
            yield from json_texts(whole, self.reading.field, self._note(name))
        else:
            yield from passages_of(whole, self.reading.lines)

    def _note(self, name: str) -> Callable[[str], None] | None:
        """What to do with a bad line: write it down and read on, or (None) stop there."""
        return (lambda sentence: self.problems.append(name + sentence)) if self.reading.broken == "skip" else None

    def _item_texts(self, items: Iterable[Any]) -> Iterator[tuple[bool, str]]:
        for number, item in enumerate(items):
            text = item.get(self.reading.field) if isinstance(item, Mapping) else item
            if not isinstance(text, str):
                has = f" with {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
                wanted = f"a document is a str, or has a field {self.reading.field!r}"
                raise BrokenError(f", item {number}: {type(item).__name__}{has}; {wanted}")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise BrokenError(f", item {number}: half of a surrogate pair at character {error.start}") from error
            yield from passages_of(iter((text,)), False)


def files_of(source: Any) -> list[Path] | None:
    """The files a source names, in a fixed order; None for standard input and for things that are not files."""
    if isinstance(source, Sequence) and source and all(isinstance(item, Path) for item in source):
        return [path for item in source for path in files_of(item) or []]
    if not isinstance(source, str | Path):
        _refuse_what_is_no_corpus(source)
        return None
    if str(source) == "-":
        return None
    path = Path(source)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
        return found or _nothing(f"the folder {source} holds no files")
    if path.exists():
        return [path]
    matching = sorted(Path(name) for name in glob.glob(str(source), recursive=True))  # noqa: PTH207 - patterns may be absolute
    return [file for file in matching if file.is_file()] or _nothing(
        f"{_short(source)}: no such file, folder or pattern (in Python, texts themselves go into a list)"
    )


def _refuse_what_is_no_corpus(source: Any) -> None:
    if isinstance(source, Mapping):
        names = ", ".join(map(str, source)) or "nothing"
        raise InputError(f"a corpus is documents, not a table of {names}; choose one of them, as in dataset['train']")
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise InputError(
            f"{type(source).__name__} is not a corpus; give a path, a pattern, '-', or an iterable of texts"
        )


def _nothing(sentence: str) -> list[Path]:
    raise InputError(sentence)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _short(source: Any) -> str:
    text = str(source)
    return text if len(text) <= 80 else text[:77] + "…"


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
