"""A saved page holds what the look says, everything it needs, and nothing from elsewhere."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from headscope.app import export
from headscope.app.export import bundle, page, save_html
from headscope.app.wire import unpack
from headscope.errors import InputError

TEXT = "the old lamp on the landing burned until morning"


@pytest.fixture
def look(scope):
    return scope.look(TEXT)


def test_every_pattern_is_inside_exactly(look):
    found = unpack(bundle(look))
    for head in look.shape.heads():
        inner = unpack(found.arrays[f"weights {head}"].tobytes())
        np.testing.assert_array_equal(inner.arrays["weights"], look.pattern(head))


def test_predictions_of_every_place_and_the_mix_of_the_last_are_inside(look):
    found = unpack(bundle(look))
    guesses = [told["guesses"][0]["id"] for told in found.values["predictions"]]
    assert guesses == look.logits.argmax(-1).tolist()
    mix = unpack(found.arrays["mix 1 8"].tobytes())
    np.testing.assert_array_equal(mix.arrays["parts"], look.contributions(8).sites["1"].parts)


def test_the_file_carries_its_numbers_and_asks_for_nothing(look, tmp_path):
    save_html(look, tmp_path / "look.html")
    html = (tmp_path / "look.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']""", html.split("<script")[0])
    assert "url(./" not in html
    data = re.search(r'id="headscope-data">([^<]+)<', html)
    assert data is not None
    assert base64.b64decode(data[1]) == bundle(look)


def test_a_look_that_is_too_large_is_refused_with_its_size(look, monkeypatch):
    monkeypatch.setattr(export, "LARGEST", 2**10)
    with pytest.raises(InputError, match=r"9 tokens × 12 heads are 0 MiB of weights, .* export a shorter text"):
        page(look)
