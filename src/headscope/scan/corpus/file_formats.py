"""Reading one file: bytes unfolded, decoded and cut, never more than a little at a time."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

CHUNK = 2**16
PASSAGE = 2**16
"""Characters that are tokenised at once."""
LONGEST_JSON = 2**26
"""Characters of one JSON line, which must be held whole to be read."""


@runtime_checkable
class Readable(Protocol):
    """Bytes, some at a time."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class BrokenError(Exception):
    """Something that cannot be read; the sentence goes on after the file's name."""


def decoded(source: Path | Readable) -> Iterator[str]:
    """The text of a file or stream, chunk by chunk. What stands before a broken place comes out first."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    for chunk in _unfolded(source):
        good, wrong = _decode(decoder, chunk)
        zero = good.find("\0")
        if zero >= 0:
            good, wrong = good[:zero], "a NUL byte: this is binary data, not text"
        if good:
            yield good
        line += good.count("\n")
        if wrong:
            raise BrokenError(f", line {line}: {wrong}")


def _decode(decoder: codecs.IncrementalDecoder, chunk: bytes) -> tuple[str, str | None]:
    """Text, and what is wrong after it. An empty chunk ends the stream."""
    try:
        return decoder.decode(chunk, final=not chunk), None
    except UnicodeDecodeError as error:
        good = error.object[: error.start].decode("utf-8-sig")
        return good, f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"


def _unfolded(source: Path | Readable) -> Iterator[bytes]:
    """Bytes of a file, uncompressed; an empty chunk at the end."""
    try:
        stream = _opened(source) if isinstance(source, Path) else source
    except OSError as error:
        raise BrokenError(f": cannot be opened ({error.strerror or error})") from error
    try:
        chunk = stream.read(CHUNK)
        while chunk:
            yield bytes(chunk)
            chunk = stream.read(CHUNK)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise BrokenError(
            f": broken after what was read so far ({str(error).rstrip('.')}); fetch the file again"
        ) from error
    finally:
        if isinstance(source, Path):
            stream.close()
    yield b""


def _opened(path: Path) -> Readable:
    if path.suffix == ".zst":
        import pyarrow as pa

        stream: Readable = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
        return stream
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    made: Readable = openers[path.suffix](path, "rb") if path.suffix in openers else path.open("rb")
    return made


def passages_of(chunks: Iterator[str], lines: bool) -> Iterator[tuple[bool, str]]:
    """Text cut into passages at white space where there is any; a document is the whole text, or each line.

    What was read before a broken place comes out before the error does.
    """
    held, begins, broken = "", True, None
    for chunk in _until_broken(chunks):
        if isinstance(chunk, BrokenError):
            broken = chunk
            break
        held += chunk
        if lines:
            *whole, held = held.split("\n")
            for line in whole:
                for passage in _cut(line):
                    yield begins, passage
                    begins = False
                begins = True
        while len(held) > PASSAGE:
            place = _break(held)
            yield begins, held[:place]
            held, begins = held[place:], False
    if held:
        yield begins, held
    if broken is not None:
        raise broken


def _until_broken(chunks: Iterator[str]) -> Iterator[str | BrokenError]:
    try:
        yield from chunks
    except BrokenError as error:
        yield error


def _cut(text: str) -> Iterator[str]:
    while len(text) > PASSAGE:
        place = _break(text)
        yield text[:place]
        text = text[place:]
    yield text


def _break(text: str) -> int:
    """Where to cut: before the last white space that fits, so that no word is torn."""
    place = max(text.rfind(" ", PASSAGE // 2, PASSAGE), text.rfind("\n", PASSAGE // 2, PASSAGE))
    return place if place > 0 else PASSAGE


def json_texts(
    chunks: Iterator[str], field: str, note: Callable[[str], None] | None = None
) -> Iterator[tuple[bool, str]]:
    """One JSON object a line. With ``note``, a bad line is told to it and the next one read."""
    for number, line in enumerate(_lines(chunks), start=1):
        if not line.strip():
            continue
        try:
            text = _text_in(line, field)
        except BrokenError as error:
            sentence = f", line {number}: {error}"
            if note is None:
                raise BrokenError(sentence) from error
            note(sentence)
            continue
        yield from passages_of(iter((text,)), False)


def _lines(chunks: Iterator[str]) -> Iterator[str]:
    held: list[str] = []
    size = number = 0
    for chunk in chunks:
        *whole, rest = chunk.split("\n")
        for line in whole:
            yield "".join([*held, line])
            held, size, number = [], 0, number + 1
        held.append(rest)
        size += len(rest)
        if size > LONGEST_JSON:
            raise BrokenError(
                f", line {number + 1}: longer than {LONGEST_JSON:,} characters; put such a text into a .txt file"
            )
    yield "".join(held)


def _text_in(line: str, field: str) -> str:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BrokenError(f"not JSON ({error})") from error
    if not isinstance(read, dict) or not isinstance(read.get(field), str):
        has = ", ".join(map(repr, read)) or "nothing" if isinstance(read, dict) else type(read).__name__
        raise BrokenError(f"no text in the field {field!r}; it has {has}")
    text: str = read[field]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BrokenError(f"half of a surrogate pair at character {error.start} of {field!r}") from error
    return text


def parquet_texts(path: Path, field: str) -> Iterator[tuple[bool, str]]:
    """The text column of a Parquet file, a few rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as table:
            if field not in table.schema_arrow.names:
                raise BrokenError(f": no column {field!r}; it has {', '.join(table.schema_arrow.names)}")
            for batch in table.iter_batches(batch_size=64, columns=[field]):
                for value in batch.column(0):
                    text = value.as_py() or ""
                    if not isinstance(text, str):
                        raise BrokenError(f", row {row}: {type(text).__name__} in the column {field!r}, not a text")
                    yield from passages_of(iter((text,)), False)
                    row += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BrokenError(f", row {row}: {str(error).splitlines()[0].rstrip('.')}") from error
