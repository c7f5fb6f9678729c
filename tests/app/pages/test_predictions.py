"""Next tokens on the page: as the model says, under edits as the edits say, and cut as a draw would cut them."""

from __future__ import annotations

import math

import pytest
import torch

from headscope import ablate
from headscope.app.pages.predictions import (
    LADDER,
    Edge,
    NextToken,
    PredictRequest,
    PredictResponse,
    SamplingRequest,
    changed,
    edits_of,
    guesses,
    logits_under,
    sampled,
)
from headscope.errors import HeadNameError, InputError

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def wish(**how) -> PredictRequest:
    return PredictRequest(**{"look": "x", "position": 3, **how})


def card(shown: list[NextToken]) -> PredictResponse:
    empty = {"off": [], "cuts": [], "how": "mean", "without": None, "kl": None}
    return PredictResponse(look="x", position=3, guesses=shown, **empty)


def test_a_head_switched_off_twice_is_switched_off_once(look):
    once, twice = (edits_of(wish(off=off), look) for off in (["0.1"], ["0.1", "0.1"]))
    assert [edit.key() for edit in once] == [edit.key() for edit in twice]


def test_heads_and_arrows_are_separate_edits_in_order(look):
    edges = [Edge(head="1.3", query=5, key=2), Edge(head="0.0", query=1, key=0)]
    made = edits_of(wish(off=["0.1", "1.2"], how="zero", cuts=[*edges, edges[0]]), look)
    assert len(made) == 3
    assert made[0].key() == ablate("0.1", "1.2", how="zero").key()


def test_no_wish_is_no_edit(look):
    assert edits_of(wish(), look) == []


@pytest.mark.parametrize(
    ("edge", "said"),
    [
        (
            {"query": 15, "key": 0},
            r"from token 15 to token 0 is not in this text: it has 15 query tokens and 15 key",
        ),
        ({"query": 0, "key": 15}, r"from token 0 to token 15 is not in this text"),
    ],
)
def test_an_arrow_beyond_the_text_is_refused_with_its_length(look, edge, said):
    with pytest.raises(InputError, match=said):
        edits_of(wish(cuts=[Edge(head="0.0", **edge)]), look)
    assert edits_of(wish(cuts=[Edge(head="0.0", query=14, key=14)]), look)


@pytest.mark.parametrize("how", [{"off": ["9.0"]}, {"cuts": [Edge(head="0.9", query=1, key=0)]}])
def test_a_head_that_is_not_there_is_not_edited(look, how):
    with pytest.raises(HeadNameError):
        edits_of(wish(**how), look)


def test_reading_again_without_edits_changes_nothing(look):
    torch.testing.assert_close(logits_under(look, []), look.logits, atol=1e-5, rtol=1e-5)


def test_reading_again_under_several_edits_is_the_scopes_edit(look, scope):
    edits = [ablate("0.1", how="zero"), ablate("1.5", how="mean")]
    with scope.edit(*edits):
        expected = scope.look(TEXT).logits
    torch.testing.assert_close(logits_under(look, edits), expected, atol=1e-5, rtol=1e-5)


def test_guesses_fall_and_are_as_many_as_asked(look):
    found = guesses(look, 4, 7)
    chances = [guess.probability for guess in found]
    assert len(found) == 7
    assert chances == sorted(chances, reverse=True)
    assert found[0].id == int(look.logits[4].argmax())
    assert sum(chances) <= 1 + 1e-6


def test_the_divergence_of_nothing_changed_is_nothing(look):
    told = changed(card(guesses(look, 3, 4)), look.logits[3], look.logits[3].clone())
    assert told.kl == 0.0
    assert told.without == pytest.approx([guess.probability for guess in told.guesses], abs=1e-6)


def test_the_divergence_counts_what_the_change_took_away():
    before, after = torch.tensor([0.5, 0.25, 0.25]).log(), torch.tensor([0.25, 0.5, 0.25]).log()
    shown = [NextToken(text="a", id=0, probability=0.5), NextToken(text="c", id=2, probability=0.25)]
    told = changed(card(shown), before, after)
    assert told.kl == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.5))
    assert told.without == pytest.approx([0.25, 0.25])


def test_a_token_that_cannot_come_does_not_make_the_divergence_nan():
    before, after = torch.tensor([0.0, 1.0, -math.inf]), torch.tensor([1.0, 0.0, -math.inf])
    told = changed(card([]), before, after)
    assert told.kl is not None
    assert math.isfinite(told.kl)
    assert told.kl > 0


@pytest.mark.parametrize(
    ("rules", "after_k", "kept", "mass"),
    [
        ({}, 4, 4, 1.0),
        ({"top_k": 2}, 2, 2, 0.75),
        ({"top_p": 0.5}, 4, 1, 0.5),
        ({"top_p": 0.51}, 4, 2, 0.75),
        ({"top_k": 3, "top_p": 0.9}, 3, 3, 0.9),
        ({"top_k": 1}, 1, 1, 0.5),
    ],
)
def test_cuts_say_how_many_are_left_and_how_much_they_hold(rules, after_k, kept, mass):
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    shown = [NextToken(text=str(i), id=i, probability=0.1) for i in (0, 3)]
    told = sampled(logits, SamplingRequest(**{"temperature": 1.0, "top_k": None, "top_p": None, **rules}), shown)
    assert (told.after_k, told.kept) == (after_k, kept)
    assert told.mass == pytest.approx(mass)
    assert told.ladder == pytest.approx([0.5, 0.25, 0.15, 0.1])
    assert told.probabilities[0] == pytest.approx(0.5 / mass)
    assert told.probabilities[1] == pytest.approx(0.1 / mass if kept == 4 else 0.0)


def test_a_hot_draw_is_flat_and_a_cold_one_certain():
    logits = torch.tensor([2.0, 1.0, 0.0])
    hot, cold = (sampled(logits, SamplingRequest(temperature=t, top_k=None, top_p=None), []) for t in (5.0, 0.1))
    assert hot.ladder[0] - hot.ladder[2] < 0.2
    assert cold.ladder[0] > 0.999


def test_the_ladder_is_as_long_as_it_is_drawn():
    told = sampled(torch.zeros(500), SamplingRequest(temperature=1.0, top_k=None, top_p=None), [])
    assert len(told.ladder) == LADDER
    assert told.ladder[0] == pytest.approx(1 / 500)
