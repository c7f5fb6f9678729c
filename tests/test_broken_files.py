"""A stored file that cannot be read is one sentence; what we say ourselves is not said again."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load

from headscope.errors import InputError, ModelError
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
def test_whatever_goes_wrong_says_what_it_is_and_the_way_out(error: Exception, why: str) -> None:
    with pytest.raises(InputError) as caught, parsing("film.safetensors", "record it again"):
        raise error
    said = str(caught.value).splitlines()[0]
    assert said == f"film.safetensors is damaged, or is of another format ({why}); record it again"
    assert caught.value.__cause__ is error, "a maker still sees where it came from"


@pytest.mark.parametrize("error", [InputError("schema 9; this program reads 1"), ModelError("no weights")])
def test_what_we_say_ourselves_is_not_said_twice(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, parsing("film.safetensors", "record it again"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_person_who_stops_it_is_not_told_that_the_file_is_broken(stop: type[BaseException]) -> None:
    with pytest.raises(stop), parsing("film.safetensors", "record it again"):
        raise stop


@pytest.mark.parametrize(
    ("data", "read"), [(b"{", json.loads), (b"\x08\0\0\0\0\0\0\0{broken}", load), (b"\xff\xfe", bytes.decode)]
)
def test_real_readers_at_real_junk(data: bytes, read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"^x is damaged, or is of another format \(.+[^.]\); y"), parsing("x", "y"):
        read(data)


def test_nothing_is_changed_where_nothing_is_wrong() -> None:
    with parsing("film.safetensors", "record it again"):
        found = json.loads("[1]")
    assert found == [1]
