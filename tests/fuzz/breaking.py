"""Ways to damage a file: truncate it at every field of its format, write false sizes, flip single bits."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

Broken = Iterator[tuple[str, bytes]]
HUGE = (2**31, 2**40, 2**62, 2**63 - 1, 2**64 - 1)


def cut(data: bytes, places: list[int]) -> Broken:
    for place in sorted({place for place in places if 0 <= place < len(data)}):
        yield f"cut at {place}", data[:place]


def flipped(data: bytes, count: int, end: int | None = None) -> Broken:
    """Flip one bit each, in the first ``end`` bytes, where a format has its header."""
    chance = random.Random(len(data))
    for _ in range(count):
        place, bit = chance.randrange(min(end or len(data), len(data))), chance.randrange(8)
        yield f"bit {bit} of byte {place}", data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def anything(data: bytes, flips: int = 20) -> Broken:
    """Damage of a file of any format."""
    size = len(data)
    yield "empty", b""
    yield "zeros", bytes(64)
    yield "something else", b"PK\x03\x04" + bytes(range(256))
    yield "text", b"hello " * 20
    yield "longer than it says", data + b"\xff" * 100
    yield from cut(data, [1, 2, 3, 4, 7, 8, 9, 16, size // 4, size // 2, size - 9, size - 8, size - 1])
    yield from flipped(data, flips)


def safetensors(data: bytes) -> Broken:
    yield from anything(data)
    length = struct.unpack("<Q", data[:8])[0]
    header, body = data[8 : 8 + length], data[8 + length :]
    yield from cut(data, [8 + length // 2, 8 + length - 1, 8 + length, 8 + length + 1])
    yield from flipped(data, 30, 8 + length)
    for claim in (0, 1, length - 1, length + 1, len(data), *HUGE):
        yield f"a header of {claim} bytes", struct.pack("<Q", claim) + data[8:]
    for name, change in _header_changes(json.loads(header)):
        changed = change if isinstance(change, bytes) else json.dumps(change).encode()
        yield name, struct.pack("<Q", len(changed)) + changed + body


def _header_changes(header: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    first = next(name for name in header if name != "__metadata__")
    yield "a header that is a list", []
    yield "a header without tensors", {}
    yield "a header that is not JSON", b"{" + b"x" * 20
    yield "a header that is not UTF-8", b'{"\xff": 1}'
    yield "a header nested deep", b"[" * 100_000
    yield "metadata that is a number", header | {"__metadata__": 7}
    yield "no metadata", {name: entry for name, entry in header.items() if name != "__metadata__"}
    for field, values in {
        "dtype": ["F128", "I8", None, 4],
        "shape": [[2**40, 2**40], [-1], [0], "x", [1.5], []],
        "data_offsets": [[0, 2**62], [9, 3], [-8, 0], [0], None, [0, 0]],
    }.items():
        for value in values:
            yield f"{field} {value}", header | {first: header[first] | {field: value}}
    yield "a tensor renamed", {("x" if name == first else name): entry for name, entry in header.items()}


def gguf(data: bytes) -> Broken:
    yield from anything(data)
    yield from flipped(data, 30, 600)
    for place, what in ((4, "version"), (8, "tensors"), (16, "facts"), (24, "key length")):
        for claim in (0, 1, 2**20, *HUGE):
            width = "<I" if what == "version" else "<Q"
            if claim < 2 ** (8 * struct.calcsize(width)):
                packed = struct.pack(width, claim)
                yield f"{what} {claim}", data[:place] + packed + data[place + len(packed) :]


def parquet(data: bytes) -> Broken:
    yield from anything(data, flips=60)
    footer = struct.unpack("<I", data[-8:-4])[0]
    yield from cut(data, [len(data) - 8 - footer, len(data) - 8 - footer // 2, len(data) - 4])
    for claim in (0, 1, footer + 1, 2**31 - 1, 2**32 - 1):
        yield f"a footer of {claim} bytes", data[:-8] + struct.pack("<I", claim) + data[-4:]


def json_text(data: bytes) -> Broken:
    yield from anything(data)
    read = json.loads(data)
    for value in (None, [], "x", 7, {}, 1e400, [[]] * 3):
        yield f"only {value!r}", json.dumps(value).encode()
    yield "nested deep", b"[" * 100_000
    yield "a long number", b'{"vocab_size": ' + b"9" * 5000 + b"}"
    for key in read:
        for value in (None, -1, 0, 2**40, "x", {}):
            yield f"{key} {value!r}", json.dumps(read | {key: value}).encode()
        yield f"without {key}", json.dumps({name: entry for name, entry in read.items() if name != key}).encode()


BREAKS: dict[str, Callable[[bytes], Broken]] = {
    "safetensors": safetensors,
    "gguf": gguf,
    "parquet": parquet,
    "json": json_text,
    "anything": anything,
}
