"""Read one file of a corpus (plain or compressed text, JSON lines, Parquet) as passages of bounded length."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headscope.errors import first_line

CHUNK_BYTES = 2**16
PASSAGE_CHARACTERS = 2**16
"""Characters that are tokenised at once, at most."""
MAX_JSON_LINE = 2**26
"""Characters of one JSON line, which is parsed as a whole."""
MAX_COLUMN_BYTES, MOST_COMPRESSED = 2**26, 500
"""A Parquet column of a row group larger than this may not be compressed further: text shrinks ten- to fiftyfold."""


@runtime_checkable
class _Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class UnreadableError(Exception):
    """A part of a corpus that cannot be read. The message continues after the file's name."""


def decode(source: Path | _Readable) -> Iterator[str]:
    """Yield the text of a UTF-8 file or stream. Text before an undecodable byte is yielded before the error."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    for chunk in _decompressed(source):
        text, problem = _decode_chunk(decoder, chunk)
        text, nul, _ = text.partition("\0")
        if nul:
            problem = "a NUL byte: this is binary data, not text"
        if text:
            yield text
        line += text.count("\n")
        if problem:
            raise UnreadableError(f", line {line}: {problem}")


def _decode_chunk(decoder: codecs.IncrementalDecoder, chunk: bytes) -> tuple[str, str | None]:
    """The text, and what is wrong after it. An empty chunk ends the stream."""
    try:
        return decoder.decode(chunk, final=not chunk), None
    except UnicodeDecodeError as error:
        text = error.object[: error.start].decode("utf-8-sig")
        return text, f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"


def _decompressed(source: Path | _Readable) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, then an empty chunk."""
    try:
        stream = _open(source) if isinstance(source, Path) else source
    except OSError as error:
        raise UnreadableError(f": cannot be opened ({error.strerror or error})") from error
    try:
        while chunk := stream.read(CHUNK_BYTES):
            yield bytes(chunk)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableError(
            f": broken after what was read so far ({str(error).rstrip('.')}); fetch the file again"
        ) from error
    finally:
        if isinstance(source, Path):
            stream.close()
    yield b""


def _open(path: Path) -> _Readable:
    if path.suffix == ".zst":
        import pyarrow as pa

        stream: _Readable = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
        return stream
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    opened: _Readable = openers.get(path.suffix, Path.open)(path, "rb")
    return opened


def split_passages(chunks: Iterable[str], lines: bool = False) -> Iterator[tuple[bool, str]]:
    """Split text into passages, at white space where there is any. Each comes with whether it begins a document.

    A document is the whole text, or each line. Text before an unreadable part is yielded before the error is raised.
    """
    rest, begins = "", True
    try:
        for chunk in chunks:
            parts = (rest + chunk).split("\n") if lines else [rest + chunk]
            for number, rest in enumerate(parts, start=1):
                while len(rest) > PASSAGE_CHARACTERS:
                    end = _passage_end(rest)
                    yield begins, rest[:end]
                    rest, begins = rest[end:], False
                if number < len(parts):
                    yield begins, rest
                    begins = True
    except UnreadableError:
        yield begins, rest
        raise
    if rest:
        yield begins, rest


def _passage_end(text: str) -> int:
    """Where to cut: before the last white space that fits, so that no word is split."""
    half = PASSAGE_CHARACTERS // 2
    place = max(text.rfind(space, half, PASSAGE_CHARACTERS) for space in " \n")
    return place if place > 0 else PASSAGE_CHARACTERS


def json_texts(
    chunks: Iterable[str], field: str, on_bad_line: Callable[[str], None] | None = None
) -> Iterator[tuple[bool, str]]:
    """Yield passages from one JSON object per line. A bad line is reported to ``on_bad_line``, or raised without it."""
    for number, line in enumerate(_lines(chunks), start=1):
        if not line.strip():
            continue
        try:
            text = _text_field(line, field)
        except UnreadableError as error:
            problem = f", line {number}: {error}"
            if on_bad_line is None:
                raise UnreadableError(problem) from error
            on_bad_line(problem)
            continue
        yield from split_passages((text,))


def _lines(chunks: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    size = number = 0
    for chunk in chunks:
        *whole, rest = chunk.split("\n")
        for line in whole:
            yield "".join([*held, line])
            held, size, number = [], 0, number + 1
        held.append(rest)
        size += len(rest)
        if size > MAX_JSON_LINE:
            raise UnreadableError(
                f", line {number + 1}: longer than {MAX_JSON_LINE:,} characters; put such a text into a .txt file"
            )
    yield "".join(held)


def _text_field(line: str, field: str) -> str:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not JSON ({error})") from error
    if not isinstance(read, dict) or not isinstance(read.get(field), str):
        has = ", ".join(map(repr, read)) or "nothing" if isinstance(read, dict) else type(read).__name__
        raise UnreadableError(f"no text in the field {field!r}; it has {has}")
    text: str = read[field]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnreadableError(f"half of a surrogate pair at character {error.start} of {field!r}") from error
    return text


def parquet_texts(path: Path, field: str) -> Iterator[tuple[bool, str]]:
    """Yield passages from the text column of a Parquet file, reading a few rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        metadata = pq.read_metadata(path)
        _refuse_bomb(metadata, field)
        paths = {metadata.schema.column(number).path for number in range(metadata.num_columns)}
        # Kept as a dictionary, a long text that many rows share is in memory once.
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=list({field} & paths)) as table:
            if field not in table.schema_arrow.names:
                raise UnreadableError(f": no column {field!r}; it has {', '.join(table.schema_arrow.names)}")
            for batch in table.iter_batches(batch_size=64, columns=[field]):
                for value in batch.column(0):
                    text = value.as_py() or ""
                    if not isinstance(text, str):
                        raise UnreadableError(f", row {row}: {type(text).__name__} in the column {field!r}, not a text")
                    yield from split_passages((text,))
                    row += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f", row {row}: {first_line(error)}") from error


def _refuse_bomb(metadata: Any, field: str) -> None:
    """Refuse a Parquet file whose text is far larger than any text compresses to."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            large = chunk.total_uncompressed_size > MAX_COLUMN_BYTES
            if (
                chunk.path_in_schema == field
                and large
                and (chunk.total_uncompressed_size > MOST_COMPRESSED * max(chunk.total_compressed_size, 1))
            ):
                raise UnreadableError(
                    f", row group {group}: {chunk.total_compressed_size:,} bytes that unpack to "
                    f"{chunk.total_uncompressed_size:,}; no text is so repetitive"
                )
