"""The page is told what the Scope says: every number is compared with the call a person would make."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headscope import ablate
from headscope.app import schema
from headscope.app import session as session_module
from headscope.app.answers import QUESTIONS
from headscope.app.session import KEPT_LOOKS, THUMBNAIL_SIDE, ForgottenLookError, Session, _weight
from headscope.errors import HeadNameError, InputError

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
LONG = " ".join(["the old lamp on landing burned until morning ."] * 20)


def open_look(session: Session, text: str = TEXT):
    return session.look(schema.LookRequest(text=text))


def test_the_card_describes_the_model(session):
    card = session.model()
    assert [site.name for site in card.sites] == ["0", "1"]
    assert {(site.n_heads, site.n_kv_heads, site.causal) for site in card.sites} == {(6, 3, True)}
    assert [question.name for question in card.questions] == [question.name for question in QUESTIONS]


def test_answers_are_the_means_of_the_masses_where_a_question_can_be_asked(session, scope):
    card, arrays = open_look(session)
    look = scope.look(TEXT)
    ids = [token.id for token in look.tokens]
    induction = [i for i in range(1, len(ids)) if any(ids[j - 1] == ids[i] for j in range(1, i))]
    previous = list(range(1, len(ids)))
    for name, rows in (("induction", induction), ("previous", previous)):
        index = [question.name for question in QUESTIONS].index(name)
        assert card.asked[index] == len(rows)
        expected = torch.cat([look.statistics(site).mass[name][0][:, rows].double().mean(1) for site in ("0", "1")])
        np.testing.assert_allclose(arrays["answers"][index], expected, rtol=1e-5, atol=1e-7)


def test_a_text_without_repetition_gives_no_answer_to_induction(session):
    card, arrays = open_look(session, "the old lamp burned")
    index = [question.name for question in QUESTIONS].index("induction")
    assert card.asked[index] == 0
    assert np.isnan(arrays["answers"][index]).all()
    assert np.isfinite(arrays["answers"][:3]).all()


def test_thumbnails_are_the_patterns_by_their_root(session, scope):
    _, arrays = open_look(session)
    pattern = scope.look(TEXT).pattern("1.4")
    np.testing.assert_array_equal(arrays["thumbnails"][10], (pattern.sqrt() * 255).round().to(torch.uint8))


def test_thumbnails_of_a_longer_text_are_small_and_keep_the_strongest(session, scope):
    _, arrays = open_look(session, LONG)
    assert arrays["thumbnails"].shape == (12, THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    strongest = float(scope.look(LONG).pattern("0.2").max())
    assert arrays["thumbnails"][2].max() == round(255 * strongest**0.5)


def test_weights_are_those_of_the_look_exact_and_pooled(session, scope):
    card, _ = open_look(session, LONG)
    pattern = scope.look(LONG).pattern("1.2")
    _, exact = session.weights(schema.WeightsRequest(look=card.look, head="1.2", rows=(3, 9), columns=(0, 7)))
    np.testing.assert_allclose(exact["weights"], pattern[3:9, 0:7], atol=1e-6)
    _, pooled = session.weights(
        schema.WeightsRequest(look=card.look, head="1.2", rows=(0, 160), columns=(0, 160), pool=8)
    )
    expected = pattern[:160, :160].reshape(20, 8, 20, 8).amax((1, 3))
    np.testing.assert_allclose(pooled["weights"], expected, atol=1e-6)


def test_the_mix_adds_up_and_its_shares_are_the_looks(session, scope):
    card, _ = open_look(session)
    mix, arrays = session.mix(schema.MixRequest(look=card.look, site="1", position=5))
    np.testing.assert_allclose(arrays["parts"].sum(0) + arrays["bias"], arrays["output"], atol=1e-5)
    look = scope.look(TEXT)
    guess = look.predictions(5, 1)[0]
    assert mix.toward is not None
    assert (mix.toward.id, mix.toward.probability) == (guess.token.id, pytest.approx(guess.probability, abs=1e-6))
    shares = look.logit_shares(guess.token.id, position=5)
    np.testing.assert_allclose(arrays["shares"], list(shares.heads.values()), atol=1e-5)
    np.testing.assert_allclose(arrays["reads"][3], look.weights("1.3", slice(5, 6))[0], atol=1e-6)


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_predictions_without_heads_are_those_inside_an_edit(session, scope, how):
    card, _ = open_look(session)
    told = session.predict(schema.PredictRequest(look=card.look, position=9, off=["0.1", "1.5"], how=how, count=4))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(ablate("0.1", "1.5", how=how)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    ids = [guess.id for guess in told.guesses]
    assert ids == before.topk(4).indices.tolist()
    assert told.without == pytest.approx(after[ids].tolist(), abs=1e-6)
    assert told.kl == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-6)
    assert told.kl > 1e-4


def test_without_edits_there_is_nothing_to_compare(session):
    card, _ = open_look(session)
    told = session.predict(schema.PredictRequest(look=card.look, position=2))
    assert (told.without, told.kl, len(told.guesses)) == (None, None, 6)


def test_a_look_can_be_asked_for_by_its_name_while_its_text_is_kept(session):
    card, _ = open_look(session)
    for words in range(1, KEPT_LOOKS + 2):
        open_look(session, "lamp " * words)
    again, _ = session.look(schema.LookRequest(look=card.look))
    assert again.text == TEXT


def test_kept_looks_stay_within_their_budget_and_the_latest_always_stays(session, monkeypatch):
    monkeypatch.setattr(session_module, "KEPT_BYTES", 3 * _weight(session.scope.look(TEXT)))
    names = [open_look(session, f"{TEXT} lamp{' lamp' * more}")[0].look for more in range(5)]
    assert list(session._looks) == names[-2:]
    monkeypatch.setattr(session_module, "KEPT_BYTES", 1)
    last, _ = open_look(session, LONG)
    assert list(session._looks) == [last.look]


def test_a_text_longer_than_the_context_is_read_as_far_as_it_goes(session):
    card, _ = open_look(session, "the lamp " * 700)
    assert (card.read, card.length, len(card.tokens)) == (1280, 1400, 1280)


def test_what_cannot_be_answered_is_said(session):
    card, _ = open_look(session)
    with pytest.raises(ForgottenLookError, match="the text of look 'gone' is no longer kept"):
        session.look(schema.LookRequest(look="gone"))
    with pytest.raises(InputError, match="this text is empty"):
        open_look(session, "   ")
    with pytest.raises(HeadNameError, match=r"7\.0: this model has layers 0–1"):
        session.predict(schema.PredictRequest(look=card.look, position=2, off=["7.0"]))
    with pytest.raises(InputError, match="positions 90 to 99: this text has 15 tokens"):
        session.weights(schema.WeightsRequest(look=card.look, head="0.0", rows=(90, 99), columns=(0, 1)))
    with pytest.raises(InputError, match="toward=99: this model has tokens 0–18"):
        session.mix(schema.MixRequest(look=card.look, site="0", position=2, toward=99))
