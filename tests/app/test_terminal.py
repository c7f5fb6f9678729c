"""Terminal output: the look's own numbers, without control characters."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from headscope.app.terminal import (
    pattern,
    percent,
    share,
    summary,
    top_heads,
    visible,
)
from headscope.heads.figure import STOPS, weight_colour
from headscope.heads.questions.standard_questions import STANDARD

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def printed(thing: object, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=colour, color_system="truecolor" if colour else None).print(thing)
    return out.getvalue()


@pytest.mark.parametrize(
    ("token", "seen"),
    [(" lamp", "lamp"), (" ", "␣"), ("\n", "⏎"), ("\t", "⇥"), ("", "␣"), ("a\nb", "a⏎b"), ("\x1b[31m", "␛[31m"),
     ("\x00", "␀"), ("\x9b31m", "�31m"), ("\u202eabc", "�abc"), ("\u2066", "�"), ("שלום", "שלום")],
)  # fmt: skip
def test_control_characters_of_a_token_are_shown_not_executed(token, seen):
    assert visible(token) == seen


def test_the_top_heads_are_ranked_over_all_layers(look):
    found = top_heads(look, 5)
    assert set(found) <= set(STANDARD)
    for name, ranked in found.items():
        values = [value for _, value in ranked]
        assert len(ranked) == 5
        assert values == sorted(values, reverse=True)
        every = [float(value) for site in look.sites for value in look.mean_answers(site)[name]]
        assert values[0] == max(every)
        head = ranked[0][0]
        assert float(look.mean_answers(head.site)[name][head.head]) == values[0]


def test_a_question_without_answering_rows_says_so(scope):
    text = printed(summary(scope.look("the old lamp")))
    assert re.search(r"induction +no row of this text can answer it", text)
    assert not re.search(r"previous +no row", text)


def test_a_summary_has_tokens_next_tokens_and_every_question(look):
    text = printed(summary(look))
    assert re.search(r"tokens +the old lamp on the landing", text)
    best = look.predictions(count=1)[0]
    assert re.search(rf"next +{re.escape(visible(best.token.text))} +{re.escape(percent(best.probability))}", text)
    assert all(name in text for name in STANDARD)


def test_a_causal_pattern_is_a_triangle_of_coloured_weights(look):
    text = printed(pattern(look, "1.2"), colour=True).splitlines()
    weights = look.pattern("1.2")
    assert len(text) == 1 + len(look.tokens)
    for index, line in enumerate(text[1:]):
        cells = re.findall(r"48;2;(\d+);(\d+);(\d+)m", line)
        wanted = [weight_colour(float(weights[index, key])) for key in range(index + 1)]
        shown = [tuple(map(int, cell)) for cell in cells]
        assert [colour for at, colour in enumerate(wanted) if at == 0 or colour != wanted[at - 1]] == [
            colour for at, colour in enumerate(shown) if at == 0 or colour != shown[at - 1]
        ]
    numbers = printed(pattern(look, "1.2")).splitlines()
    row = int(weights.amax(1).argmax())
    assert share(float(weights[row].max())) in numbers[1 + row]


def test_colours_follow_the_ramp_and_darken_monotonically():
    assert weight_colour(0.0) == tuple(bytes.fromhex(STOPS[0]))
    assert weight_colour(1.0) == tuple(bytes.fromhex(STOPS[-1]))
    assert weight_colour(-1.0) == weight_colour(0.0)
    assert weight_colour(7.0) == weight_colour(1.0)
    assert weight_colour((4 / 8) ** 2) == tuple(bytes.fromhex(STOPS[4]))
    steps = [sum(weight_colour(number / 100)) for number in range(101)]
    assert steps == sorted(steps, reverse=True)
