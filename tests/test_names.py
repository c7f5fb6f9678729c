"""Names of heads and sites: they stand in addresses and files, so they do not change."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.errors import HeadNameError
from headscope.names import Head, ModelShape, Site


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("5.1", Head("5", 1)),
        ("decoder.5.cross.1", Head("decoder.5.cross", 1)),
        (" 0.11 ", Head("0", 11)),
        ("encoder.3@2.0", Head("encoder.3@2", 0)),
    ],
)
def test_a_name_is_read(name: str, head: Head) -> None:
    assert Head.parse(name) == head
    assert str(head) == name.strip()
    assert Head.parse(head) is head


@given(st.from_regex(r"[a-z0-9]+(\.[a-z0-9]+){0,3}(@[0-9]+)?", fullmatch=True), st.integers(0, 200))
def test_writing_and_reading_gives_the_same_head(site: str, head: int) -> None:
    assert Head.parse(str(Head(site, head))) == Head(site, head)


@pytest.mark.parametrize("name", ["", "5", "5.", ".1", "5.x", "5.-1", "5.²", "5.1.5 1"])
def test_what_is_not_a_name_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(HeadNameError, match=re.escape(f"{name!r} is not a head name; write LAYER.HEAD, such as 5.1")):
        Head.parse(name)


def shape_of(*names: str) -> ModelShape:
    sites = {name: Site(name, n_heads=4, n_kv_heads=2, d_head=8, d_value=8) for name in names}
    return ModelShape("tiny", d_model=32, vocabulary=100, context=64, sites=sites)


def test_a_model_lists_its_heads_in_order() -> None:
    shape = shape_of("0", "1")
    assert shape.n_heads == 8
    assert [str(head) for head in shape.heads()][:5] == ["0.0", "0.1", "0.2", "0.3", "1.0"]
    assert shape.sites["0"].group_size == 2
    assert shape.find("1.3") == Head("1", 3)


@pytest.mark.parametrize(
    ("sites", "name", "message"),
    [
        (("0", "1"), "2.0", "2.0: this model has layers 0–1"),
        (("0", "1"), "1.4", "1.4: site 1 has heads 0–3"),
        (("encoder.0", "decoder.0.cross"), "0.1", "0.1: this model has the sites encoder.0, decoder.0.cross"),
    ],
)
def test_a_head_that_a_model_does_not_have_is_refused(sites: tuple[str, ...], name: str, message: str) -> None:
    with pytest.raises(HeadNameError, match=re.escape(message)):
        shape_of(*sites).find(name)


heads = st.builds(Head, st.from_regex(r"[a-z0-9]+(\.[a-z0-9]+){0,2}", fullmatch=True), st.integers(0, 99))


@given(st.text(max_size=12))
def test_any_text_is_a_head_that_writes_itself_the_same_or_is_refused(text: str) -> None:
    try:
        head = Head.parse(text)
    except HeadNameError as error:
        assert repr(text) in str(error)  # noqa: PT017 - most texts are refused, and each must be named
    else:
        assert Head.parse(str(head)) == head
        assert head.head >= 0


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_every_head_that_a_model_lists_is_found_and_the_next_one_is_not(sites: int, n_kv: int, group: int) -> None:
    made = {str(i): Site(str(i), n_heads=n_kv * group, n_kv_heads=n_kv, d_head=8, d_value=8) for i in range(sites)}
    shape = ModelShape("drawn", d_model=8, vocabulary=None, context=None, sites=made)
    assert len(shape.heads()) == shape.n_heads == sites * n_kv * group
    assert [shape.find(str(head)) for head in shape.heads()] == shape.heads()
    assert {site.group_size for site in made.values()} == {group}
    with pytest.raises(HeadNameError, match=rf"site 0 has heads 0–{n_kv * group - 1}"):
        shape.find(Head("0", n_kv * group))
