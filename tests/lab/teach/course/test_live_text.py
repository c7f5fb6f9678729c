"""Live numbers and figures in a lesson's text."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch

from headscope.errors import InputError
from headscope.lab.teach.lessons import live, plain, take_figures, with_captions

NAMES = {"share": 0.694, "word": "it", "table": torch.eye(2), "below": -0.5}


def test_a_number_carries_its_name_its_format_and_what_it_is_now() -> None:
    text = live("*{{word}}* has {{share:w}}, {{below:.1f}}", NAMES)
    assert text == "*{{word=it}}* has {{share:w=.69}}, {{below:.1f=−0.5}}"
    assert plain(text) == "*it* has .69, −0.5"


def test_a_figure_gets_the_variables_that_it_names_and_a_terminal_its_caption() -> None:
    text, figures = take_figures("Before.\n\n::: figure bars of=table word\nIt is {{word}}.\n:::\n\nAfter.\n", NAMES)
    assert text == "Before.\n\n[[figure 0]]\n\nAfter.\n"
    assert asdict(figures[0]) == {
        "kind": "bars",
        "props": {"of": [[1.0, 0.0], [0.0, 1.0]], "word": "it"},
        "caption": "It is {{word}}.",
    }
    named = [type(figures[0])(figures[0].kind, figures[0].props, live(figures[0].caption, NAMES))]
    assert with_captions(text, named) == "Before.\n\n> It is it.\n\nAfter.\n"


def test_what_is_not_computed_is_refused() -> None:
    with pytest.raises(InputError, match="the text uses 'x', which its code does not compute"):
        live("{{x}}", NAMES)
    with pytest.raises(InputError, match="the figure 'bars' uses 'rows', which its code does not compute"):
        take_figures("::: figure bars of=rows\n:::\n", NAMES)
