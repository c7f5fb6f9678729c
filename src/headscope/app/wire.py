"""The one binary container in which arrays travel: to the page, into a notebook, and inside an exported file.

Layout, little-endian throughout; ``web/src/wire.ts`` is its mirror:

    4 bytes   b"HSC1"
    4 bytes   uint32, length of the header in bytes
    header    JSON in UTF-8, padded with spaces until 8 divides the place where it ends:
              {"values": {...}, "arrays": [{"name", "dtype", "shape", "offset"}, ...]}
    data      each array raw, rows first, at its offset from the header's end; every offset is a multiple of 8

Offsets are multiples of 8 so that a browser can lay a typed array over the bytes without copying them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python
from torch import Tensor

from headscope.errors import InputError

Arrays = dict[str, NDArray[Any]]

MAGIC = b"HSC1"
ALIGNMENT = 8
DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "float32": "<f4",
        "float64": "<f8",
        "uint8": "|u1",
        "int8": "|i1",
        "uint16": "<u2",
        "int32": "<i4",
        "uint32": "<u4",
    }.items()
}


@dataclass(frozen=True)
class Container:
    """Plain values and named arrays, as they were packed."""

    values: dict[str, Any]
    arrays: Arrays


def numbers(values: Tensor) -> NDArray[np.float32]:
    """A tensor on any device as a float32 array."""
    return values.detach().float().cpu().numpy()


def pack(values: Any, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One container with these values (a response, or anything JSON can express) and arrays."""
    entries, chunks, offset = [], [], 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise InputError(f"array {name!r} has dtype {array.dtype.name}; a container holds {', '.join(DTYPES)}")
        raw = np.ascontiguousarray(array, dtype=DTYPES[array.dtype.name]).tobytes()
        entries.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset})
        chunks.append(raw + bytes(-len(raw) % ALIGNMENT))
        offset += len(chunks[-1])
    content = {"values": to_jsonable_python(values), "arrays": entries}
    header = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    header += b" " * (-(len(MAGIC) + 4 + len(header)) % ALIGNMENT)
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, *chunks])


def unpack(data: bytes) -> Container:
    """The values and arrays of a container; the arrays are views of ``data``."""
    if data[:4] != MAGIC or len(data) < 8:
        raise InputError(f"these {len(data)} bytes are not a container: they begin with {data[:4]!r}, not {MAGIC!r}")
    start = 8 + int(struct.unpack_from("<I", data, 4)[0])
    if start > len(data):
        raise InputError(f"the container is cut short: its header ends at byte {start}, and there are {len(data)}")
    header = json.loads(data[8:start])
    arrays = {}
    for entry in header["arrays"]:
        dtype, count = DTYPES[entry["dtype"]], int(np.prod(entry["shape"], dtype=np.int64))
        first = start + entry["offset"]
        if first + count * dtype.itemsize > len(data):
            raise InputError(
                f"the container is cut short: array {entry['name']!r} ends at byte {first + count * dtype.itemsize}, "
                f"and there are {len(data)}"
            )
        arrays[entry["name"]] = np.frombuffer(data, dtype, count, first).reshape(entry["shape"])
    return Container(header["values"], arrays)
