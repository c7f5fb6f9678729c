"""Pack JSON and arrays into one safetensors file, for responses, notebooks and exported pages.

The JSON is a uint8 tensor called ``json``. ``web/src/wire.ts`` reads the same format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_jsonable_python
from safetensors.numpy import load, save
from torch import Tensor

from headscope.errors import InputError

Arrays = dict[str, NDArray[Any]]

JSON = "json"
DTYPES = ("float32", "float64", "uint8", "int8", "uint16", "int32", "uint32")  # those that a browser has


@dataclass(frozen=True)
class Container:
    """Plain values and named arrays, as they were packed."""

    values: dict[str, Any]
    arrays: Arrays


def numbers(values: Tensor) -> NDArray[np.float32]:
    """A tensor on any device as a float32 array."""
    return values.detach().float().cpu().numpy()


def pack(values: Any, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One file with these values (a response, or anything JSON can express) and arrays."""
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise InputError(f"array {name!r} has dtype {array.dtype.name}; a container holds {', '.join(DTYPES)}")
    text = json.dumps(to_jsonable_python(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return save(contiguous | {JSON: np.frombuffer(text.encode(), np.uint8)})


def unpack(data: bytes) -> Container:
    """The values and arrays of a container."""
    arrays = load(data)
    return Container(json.loads(arrays.pop(JSON).tobytes()), arrays)
