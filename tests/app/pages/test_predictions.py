"""Next tokens on the page: the model's own, and under edits."""

from __future__ import annotations

import math

import pytest
import torch

from headscope import ablate
from headscope.app.pages.predictions import (
    HeadArrow,
    NextToken,
    PredictRequest,
    PredictResponse,
    edits_of,
    logits_under,
    with_edits,
)
from headscope.errors import HeadNameError, InputError

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"


@pytest.fixture(scope="module")
def look(scope):
    return scope.look(TEXT)


def request_of(**how) -> PredictRequest:
    return PredictRequest(**{"look": "x", "position": 3, **how})


def card(shown: list[NextToken]) -> PredictResponse:
    empty = {"off": [], "cuts": [], "how": "mean", "without": None, "kl": None}
    return PredictResponse(look="x", position=3, guesses=shown, **empty)


def test_ablations_and_knock_outs_are_separate_edits_in_order(look):
    edges = [HeadArrow(head="1.3", query=5, key=2), HeadArrow(head="0.0", query=1, key=0)]
    made = edits_of(request_of(off=["0.1", "1.2"], how="zero", cuts=[*edges, edges[0]]), look)
    assert len(made) == 3
    assert made[0].key == ablate("0.1", "1.2", how="zero").key


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
        edits_of(request_of(cuts=[HeadArrow(head="0.0", **edge)]), look)
    assert edits_of(request_of(cuts=[HeadArrow(head="0.0", query=14, key=14)]), look)


@pytest.mark.parametrize("how", [{"off": ["9.0"]}, {"cuts": [HeadArrow(head="0.9", query=1, key=0)]}])
def test_an_unknown_head_cannot_be_edited(look, how):
    with pytest.raises(HeadNameError):
        edits_of(request_of(**how), look)


def test_logits_under_several_edits_equal_scope_edit_s(look, scope):
    edits = [ablate("0.1", how="zero"), ablate("1.5", how="mean")]
    with scope.edit(*edits):
        expected = scope.look(TEXT).logits
    torch.testing.assert_close(logits_under(look, edits), expected, atol=1e-5, rtol=1e-5)


def test_the_kl_divergence_is_from_the_model_to_the_edited_model():
    before, after = torch.tensor([0.5, 0.25, 0.25]).log(), torch.tensor([0.25, 0.5, 0.25]).log()
    shown = [NextToken(text="a", id=0, probability=0.5), NextToken(text="c", id=2, probability=0.25)]
    response = with_edits(card(shown), before, after)
    assert response.kl == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.5))
    assert response.without == pytest.approx([0.25, 0.25])


def test_a_token_of_probability_zero_does_not_make_the_kl_divergence_nan():
    before, after = torch.tensor([0.0, 1.0, -math.inf]), torch.tensor([1.0, 0.0, -math.inf])
    response = with_edits(card([]), before, after)
    assert response.kl is not None
    assert math.isfinite(response.kl)
    assert response.kl > 0
