"""Terminal output: the look's own numbers, without control characters."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from headscope.app.colour import STOPS, weight_colour
from headscope.app.terminal import (
    WIDEST,
    ablation_table,
    pattern,
    percent,
    printable,
    question_row,
    share,
    summary,
    top_heads,
    visible,
)
from headscope.errors import InputError
from headscope.heads.questions.standard_questions import STANDARD
from headscope.names import Head

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def printed(thing: object, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=colour, color_system="truecolor" if colour else None).print(thing)
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, ".00"), (0.004, ".00"), (0.069, ".07"), (0.694, ".69"), (0.9949, ".99"), (0.995, "1.0"), (1.0, "1.0")],
)
def test_a_weight_is_printed_without_its_leading_zero(value, text):
    assert share(value) == text
    assert len(text) == 3


@pytest.mark.parametrize(
    ("value", "text"), [(0.45, "45%"), (0.1, "10%"), (0.0999, "10.0%"), (0.003, "0.3%"), (1.0, "100%")]
)
def test_a_probability_below_a_tenth_has_one_decimal(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(
    ("token", "seen"),
    [(" lamp", "lamp"), (" ", "␣"), ("\n", "⏎"), ("\t", "⇥"), ("", "␣"), ("a\nb", "a⏎b"), ("\x1b[31m", "␛[31m"),
     ("\x00", "␀"), ("\x9b31m", "�31m"), ("\u202eabc", "�abc"), ("\u2066", "�"), ("שלום", "שלום")],
)  # fmt: skip
def test_control_characters_of_a_token_are_shown_not_executed(token, seen):
    assert visible(token) == seen


def test_no_control_character_is_left():
    every = "".join(chr(code) for code in range(0x2100))
    left = set(printable(every)) & {
        *map(chr, range(32)),
        *map(chr, range(0x7F, 0xA0)),
        *map(chr, range(0x202A, 0x202F)),
    }
    assert left == {"\n", "\t"}


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


def test_a_long_token_row_is_truncated_with_a_count(scope):
    assert f"… and {60 - WIDEST} more" in printed(summary(scope.look("lamp " * 60)))


def test_an_own_question_without_answering_rows_says_so():
    assert question_row("verbs", {}).plain == "verbs: no row of this text can answer it"
    found = {Head("0", 1): 0.25, Head("1", 0): 0.5, Head("1", 2): 0.125, Head("0", 0): 0.1}
    assert question_row("verbs", found).plain == "verbs: 1.0 .50   0.1 .25   1.2 .12"


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


def test_a_pattern_too_wide_for_the_terminal_is_refused(scope):
    with pytest.raises(
        InputError, match=rf"a pattern of 60×60 does not fit a terminal \({WIDEST} tokens at most\); use"
    ):
        pattern(scope.look("lamp " * 60), "0.0")


def test_an_ablation_table_has_one_line_per_token_and_the_kl_divergence():
    change = {"heads": ["5.1", "5.5"], "kl_nats": 0.1234, "next": [{"token": " road", "with": 0.5, "without": 0.05}]}
    text = printed(ablation_table(change))
    assert "without 5.1, 5.5: KL 0.123 nats" in " ".join(text.split())
    assert re.search(r"road +50% +5\.0%", text)


def test_colours_follow_the_ramp_and_darken_monotonically():
    assert weight_colour(0.0) == tuple(bytes.fromhex(STOPS[0]))
    assert weight_colour(1.0) == tuple(bytes.fromhex(STOPS[-1]))
    assert weight_colour(-1.0) == weight_colour(0.0)
    assert weight_colour(7.0) == weight_colour(1.0)
    assert weight_colour((4 / 8) ** 2) == tuple(bytes.fromhex(STOPS[4]))
    steps = [sum(weight_colour(number / 100)) for number in range(101)]
    assert steps == sorted(steps, reverse=True)
