"""Errors while a stored file is parsed name the file and what to do; headscope's own errors are not changed."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load

from headscope.errors import InputError
from headscope.files import parsing


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no such column."), "no such column"),
        (KeyError("heads"), "'heads'"),
        (RuntimeError("first line\nsecond line"), "first line"),
        (IndexError(), "IndexError"),
    ],
)
def test_any_error_names_the_file_and_what_to_do(error: Exception, why: str) -> None:
    with pytest.raises(InputError) as caught, parsing("film.safetensors", "record it again"):
        raise error
    said = str(caught.value).splitlines()[0]
    assert said == f"film.safetensors is damaged or in a different format ({why}); record it again"
    assert caught.value.__cause__ is error, "the original error is kept as the cause"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_reported_as_a_damaged_file(stop: type[BaseException]) -> None:
    with pytest.raises(stop), parsing("film.safetensors", "record it again"):
        raise stop


@pytest.mark.parametrize(
    ("data", "read"), [(b"{", json.loads), (b"\x08\0\0\0\0\0\0\0{broken}", load), (b"\xff\xfe", bytes.decode)]
)
def test_errors_of_real_parsers(data: bytes, read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"^x is damaged or in a different format \(.+[^.]\); y"), parsing("x", "y"):
        read(data)
