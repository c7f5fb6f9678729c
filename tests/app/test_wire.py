"""The container gives back what was put in, and says where it is cut."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.app.wire import DTYPES, pack, unpack
from headscope.errors import InputError

shapes = st.lists(st.integers(0, 5), max_size=3)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=5), st.tuples(st.sampled_from(sorted(DTYPES)), shapes), max_size=4), st.text())
def test_what_is_packed_comes_back(described, text):
    rng = np.random.default_rng(0)
    arrays = {name: np.asarray(rng.random(shape) * 100, dtype) for name, (dtype, shape) in described.items()}
    found = unpack(pack({"text": text, "nested": {"of": [1, None]}}, arrays))
    assert found.values == {"text": text, "nested": {"of": [1, None]}}
    assert list(found.arrays) == list(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_a_transposed_array_arrives_in_its_own_order():
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    np.testing.assert_array_equal(unpack(pack({}, {"a": array})).arrays["a"], array)


def test_arrays_begin_where_a_browser_can_lay_a_typed_array_over_them():
    data = pack({"name": "ümlaut"}, {"bytes": np.arange(3, dtype=np.uint8), "wide": np.ones(2, dtype=np.float64)})
    length = struct.unpack_from("<I", data, 4)[0]
    header = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert [entry["offset"] for entry in header["arrays"]] == [0, 8]


def test_an_unknown_dtype_is_refused_by_name():
    with pytest.raises(InputError, match="array 'z' has dtype complex128; a container holds float32"):
        pack({}, {"z": np.zeros(2, dtype=np.complex128)})


def test_a_nan_among_the_values_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"p": float("nan")}, {})


def test_other_bytes_and_cut_containers_are_refused():
    data = pack({"a": 1}, {"weights": np.ones((4, 4), dtype=np.float32)})
    with pytest.raises(InputError, match=r"are not a container: they begin with b'<htm', not b'HSC1'"):
        unpack(b"<html></html>")
    with pytest.raises(InputError, match=r"array 'weights' ends at byte \d+, and there are \d+"):
        unpack(data[:-8])
    with pytest.raises(InputError, match="its header ends at byte"):
        unpack(data[:12])
