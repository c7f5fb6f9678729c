"""Containers: what is packed comes back, in safetensors, laid out for a browser's typed arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import load

from headscope.app.wire import DTYPES, JSON, pack, unpack

shapes = st.lists(st.integers(0, 5), max_size=3)
names = st.text(max_size=5).filter(lambda name: name != JSON)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(names, st.tuples(st.sampled_from(sorted(DTYPES)), shapes), max_size=4), st.text())
def test_what_is_packed_comes_back(described, text):
    rng = np.random.default_rng(0)
    arrays = {name: np.asarray(rng.random(shape) * 100, dtype) for name, (dtype, shape) in described.items()}
    found = unpack(pack({"text": text, "nested": {"of": [1, None]}}, arrays))
    assert found.values == {"text": text, "nested": {"of": [1, None]}}
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_any_safetensors_reader_reads_the_arrays():
    found = load(pack({"text": "é"}, {"weights": np.ones((2, 3), np.float32)}))
    assert found["weights"].shape == (2, 3)
    assert json.loads(found[JSON].tobytes()) == {"text": "é"}


def test_arrays_begin_where_a_browser_can_lay_a_typed_array_over_them():
    odd = {"bytes": np.arange(3, dtype=np.uint8), "wide": np.ones(2, np.float64), "short": np.ones(5, np.uint16)}
    data = pack({"name": "ümlaut"}, odd | {"weights": np.ones(3, np.float32)})
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    sizes = {"F64": 8, "F32": 4, "U16": 2, "U8": 1}
    for entry in json.loads(data[8 : 8 + length]).values():
        assert entry["data_offsets"][0] % sizes[entry["dtype"]] == 0


def test_a_nan_among_the_values_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"p": float("nan")}, {})


def test_other_bytes_and_truncated_containers_are_refused():
    data = pack({"a": 1}, {"weights": np.ones((4, 4), dtype=np.float32)})
    for broken in (b"<html></html>", data[:-8], data[:12], b""):
        with pytest.raises(SafetensorError):
            unpack(broken)
