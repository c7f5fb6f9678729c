"""What a terminal shows: the look's own numbers, in cells and tables that no text can steer."""

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
    ("value", "told"),
    [(0.0, ".00"), (0.004, ".00"), (0.069, ".07"), (0.694, ".69"), (0.9949, ".99"), (0.995, "1.0"), (1.0, "1.0")],
)
def test_a_weight_is_written_without_its_zero(value, told):
    assert share(value) == told
    assert len(told) == 3


@pytest.mark.parametrize(
    ("value", "told"), [(0.45, "45%"), (0.1, "10%"), (0.0999, "10.0%"), (0.003, "0.3%"), (1.0, "100%")]
)
def test_a_chance_below_a_tenth_keeps_a_digit(value, told):
    assert percent(value) == told


@pytest.mark.parametrize(
    ("token", "seen"),
    [(" lamp", "lamp"), (" ", "␣"), ("\n", "⏎"), ("\t", "⇥"), ("", "␣"), ("a\nb", "a⏎b"), ("\x1b[31m", "␛[31m"),
     ("\x00", "␀"), ("\x9b31m", "�31m"), ("\u202eabc", "�abc"), ("\u2066", "�"), ("שלום", "שלום")],
)  # fmt: skip
def test_a_token_is_shown_and_obeyed_never(token, seen):
    assert visible(token) == seen


def test_no_sign_that_steers_a_terminal_is_left():
    every = "".join(chr(code) for code in range(0x2100))
    left = set(printable(every)) & {
        *map(chr, range(32)),
        *map(chr, range(0x7F, 0xA0)),
        *map(chr, range(0x202A, 0x202F)),
    }
    assert left == {"\n", "\t"}


def test_the_strongest_heads_of_a_question_are_ranked_over_all_layers(look):
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


def test_a_question_that_a_text_cannot_answer_is_said_to_be_so(scope):
    told = printed(summary(scope.look("the old lamp")))
    assert re.search(r"induction +no row of this text can answer it", told)
    assert not re.search(r"previous +nowhere", told)


def test_a_summary_holds_the_tokens_what_comes_next_and_every_question(look):
    told = printed(summary(look))
    assert re.search(r"tokens +the old lamp on the landing", told)
    best = look.predictions(count=1)[0]
    assert re.search(rf"next +{re.escape(visible(best.token.text))} +{re.escape(percent(best.probability))}", told)
    assert all(name in told for name in STANDARD)


def test_a_long_text_is_cut_and_says_by_how_much(scope):
    assert f"… and {60 - WIDEST} more" in printed(summary(scope.look("lamp " * 60)))


def test_an_own_question_without_an_answer_says_so():
    assert question_row("verbs", {}).plain == "verbs: no row of this text can answer it"
    found = {Head("0", 1): 0.25, Head("1", 0): 0.5, Head("1", 2): 0.125, Head("0", 0): 0.1}
    assert question_row("verbs", found).plain == "verbs: 1.0 .50   0.1 .25   1.2 .12"


def test_a_pattern_is_a_triangle_of_the_weights_in_their_colours(look):
    told = printed(pattern(look, "1.2"), colour=True).splitlines()
    weights = look.pattern("1.2")
    assert len(told) == 1 + len(look.tokens)
    for index, line in enumerate(told[1:]):
        cells = re.findall(r"48;2;(\d+);(\d+);(\d+)m", line)
        wanted = [weight_colour(float(weights[index, key])) for key in range(index + 1)]
        shown = [tuple(map(int, cell)) for cell in cells]
        assert [colour for at, colour in enumerate(wanted) if at == 0 or colour != wanted[at - 1]] == [
            colour for at, colour in enumerate(shown) if at == 0 or colour != shown[at - 1]
        ]
    numbers = printed(pattern(look, "1.2")).splitlines()
    row = int(weights.amax(1).argmax())
    assert share(float(weights[row].max())) in numbers[1 + row]


def test_a_pattern_that_does_not_fit_says_what_does(scope):
    with pytest.raises(
        InputError, match=rf"a pattern of 60×60 does not fit a terminal \({WIDEST} tokens at most\); use"
    ):
        pattern(scope.look("lamp " * 60), "0.0")


def test_a_change_is_a_line_a_token_and_its_distance():
    change = {"heads": ["5.1", "5.5"], "kl_nats": 0.1234, "next": [{"token": " road", "with": 0.5, "without": 0.05}]}
    told = printed(ablation_table(change))
    assert "without 5.1, 5.5: KL 0.123 nats" in " ".join(told.split())
    assert re.search(r"road +50% +5\.0%", told)


def test_colours_begin_and_end_with_the_ramp_and_darken_all_the_way():
    assert weight_colour(0.0) == tuple(bytes.fromhex(STOPS[0]))
    assert weight_colour(1.0) == tuple(bytes.fromhex(STOPS[-1]))
    assert weight_colour(-1.0) == weight_colour(0.0)
    assert weight_colour(7.0) == weight_colour(1.0)
    assert weight_colour((4 / 8) ** 2) == tuple(bytes.fromhex(STOPS[4]))
    steps = [sum(weight_colour(number / 100)) for number in range(101)]
    assert steps == sorted(steps, reverse=True)
