"""The page is told what the Scope says: every number is compared with the call a person would make."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headscope import ablate, knock_out
from headscope.app.pages import microscope as session_module
from headscope.app.pages.attribution import AttributionRequest
from headscope.app.pages.head_scores import QUESTIONS
from headscope.app.pages.microscope import (
    KEPT_LOOKS,
    ForgottenLookError,
    ImportanceRequest,
    LookRequest,
    Session,
    _nbytes,
)
from headscope.app.pages.predictions import Edge, PredictRequest, SamplingRequest
from headscope.app.pages.tiles import THUMBNAIL_SIDE, WeightsRequest
from headscope.errors import HeadNameError, InputError

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
LONG = " ".join(["the old lamp on landing burned until morning ."] * 20)


def open_look(session: Session, text: str = TEXT):
    return session.look(LookRequest(text=text))


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
    _, exact = session.weights(WeightsRequest(look=card.look, head="1.2", rows=(3, 9), columns=(0, 7)))
    np.testing.assert_allclose(exact["weights"], pattern[3:9, 0:7], atol=1e-6)
    _, pooled = session.weights(WeightsRequest(look=card.look, head="1.2", rows=(0, 160), columns=(0, 160), pool=8))
    expected = pattern[:160, :160].reshape(20, 8, 20, 8).amax((1, 3))
    np.testing.assert_allclose(pooled["weights"], expected, atol=1e-6)


def test_the_mix_adds_up_and_its_shares_are_the_looks(session, scope):
    card, _ = open_look(session)
    mix, arrays = session.attribution(AttributionRequest(look=card.look, site="1", position=5))
    np.testing.assert_allclose(arrays["parts"].sum(0) + arrays["bias"], arrays["output"], atol=1e-5)
    look = scope.look(TEXT)
    guess = look.predictions(5, 1)[0]
    assert mix.toward is not None
    assert (mix.toward.id, mix.toward.probability) == (guess.token.id, pytest.approx(guess.probability, abs=1e-6))
    shares = look.logit_attribution(guess.token.id, position=5)
    np.testing.assert_allclose(arrays["shares"], list(shares.heads.values()), atol=1e-5)
    np.testing.assert_allclose(arrays["reads"][3], look.weights("1.3", slice(5, 6))[0], atol=1e-6)


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_predictions_without_heads_are_those_inside_an_edit(session, scope, how):
    card, _ = open_look(session)
    told = session.predict(PredictRequest(look=card.look, position=9, off=["0.1", "1.5"], how=how, count=4))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(ablate("0.1", "1.5", how=how)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    ids = [guess.id for guess in told.guesses]
    assert ids == before.topk(4).indices.tolist()
    assert told.without == pytest.approx(after[ids].tolist(), abs=1e-6)
    assert told.kl == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-6)
    assert told.kl > 1e-4


def test_an_arrow_cut_changes_the_prediction_as_the_edit_says(session, scope):
    card, _ = open_look(session)
    edges = [Edge(head="0.1", query=9, key=2), Edge(head="1.3", query=9, key=9)]
    told = session.predict(PredictRequest(look=card.look, position=9, cuts=edges))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(knock_out("0.1", 9, 2), knock_out("1.3", 9, 9)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    assert told.without == pytest.approx(after[[guess.id for guess in told.guesses]].tolist(), abs=1e-6)
    assert told.kl == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-6)
    assert told.kl > 1e-6


def test_temperature_top_k_and_top_p_are_cuts_on_the_distribution(session, scope):
    card, _ = open_look(session)
    asked = SamplingRequest(temperature=0.5, top_k=5, top_p=0.6)
    told = session.predict(PredictRequest(look=card.look, position=9, sampling=asked)).sampled
    tempered = (scope.look(TEXT).logits[9].double() / 0.5).softmax(-1).sort(descending=True).values
    five = tempered[:5] / tempered[:5].sum()
    kept = 1 + int((five.cumsum(0) < 0.6).sum())
    assert (told.after_k, told.kept) == (5, kept)
    assert told.mass == pytest.approx(float(tempered[:kept].sum()), abs=1e-6)
    assert told.ladder[:5] == pytest.approx(tempered[:5].tolist(), abs=1e-6)
    assert told.probabilities[:kept] == pytest.approx((tempered[:kept] / tempered[:kept].sum()).tolist(), abs=1e-5)
    assert not any(told.probabilities[kept:])


def test_a_pattern_through_its_measures(session, scope):
    card, _ = open_look(session, LONG)
    look = scope.look(LONG)
    pattern, norms = look.pattern("1.2"), look.value_norms("1.2")

    def seen(**how):
        asked = {"look": card.look, "head": "1.2", "rows": (0, 160), "columns": (0, 160), **how}
        return session.weights(WeightsRequest(**asked))[1]["weights"]

    by_row = pattern / pattern.amax(1, keepdim=True)
    np.testing.assert_allclose(seen(measure="row"), by_row[:160, :160], atol=1e-5)
    aside = pattern[:160, :160] / pattern[:160, 1:].amax(1, keepdim=True).clamp_min(1e-30)
    np.testing.assert_allclose(seen(measure="row", aside=True)[1:, 1:], aside[1:, 1:], rtol=1e-5)
    np.testing.assert_allclose(seen(measure="value"), (pattern * norms)[:160, :160], atol=1e-6)
    pooled = (pattern * norms)[:160, :160].reshape(20, 8, 20, 8).amax((1, 3))
    np.testing.assert_allclose(seen(measure="value", pool=8), pooled, atol=1e-6)


def test_importance_is_the_scopes_first_order_one(session, scope):
    card, _ = open_look(session)
    told, arrays = session.importance(ImportanceRequest(look=card.look))
    expected = {found.head: found.loss.mean for found in scope.importance([TEXT], how="gradient")}
    np.testing.assert_allclose(arrays["importance"], [expected[head] for head in scope.shape.heads()], atol=1e-6)
    assert told.read == 15


def test_importance_of_a_long_text_is_measured_on_its_beginning(session, monkeypatch):
    monkeypatch.setattr(session_module, "MEASURED", 20)
    card, _ = open_look(session, LONG)
    told, _ = session.importance(ImportanceRequest(look=card.look))
    assert told.read == 20


def test_papers_speak_only_of_models_they_name(session):
    assert session.featured().claims == []


def test_without_edits_there_is_nothing_to_compare(session):
    card, _ = open_look(session)
    told = session.predict(PredictRequest(look=card.look, position=2))
    assert (told.without, told.kl, len(told.guesses)) == (None, None, 6)


def test_a_look_can_be_asked_for_by_its_name_while_its_text_is_kept(session):
    card, _ = open_look(session)
    for words in range(1, KEPT_LOOKS + 2):
        open_look(session, "lamp " * words)
    again, _ = session.look(LookRequest(look=card.look))
    assert again.text == TEXT


def test_kept_looks_stay_within_their_budget_and_the_latest_always_stays(session, monkeypatch):
    monkeypatch.setattr(session_module, "KEPT_BYTES", 3 * _nbytes(session.scope.look(TEXT)))
    names = [open_look(session, f"{TEXT} lamp{' lamp' * more}")[0].look for more in range(5)]
    assert list(session._looks) == names[-2:]
    monkeypatch.setattr(session_module, "KEPT_BYTES", 1)
    last, _ = open_look(session, LONG)
    assert list(session._looks) == [last.look]


def test_a_text_longer_than_the_context_is_read_as_far_as_it_goes(session):
    card, _ = open_look(session, "the lamp " * 700)
    assert (card.read, card.length, len(card.tokens)) == (1280, 1400, 1280)


def test_a_long_text_is_read_with_every_core_and_a_short_one_with_what_there_is(session, monkeypatch):
    monkeypatch.setattr(session_module, "CORES", 3)
    monkeypatch.setattr(session_module, "LONG_TEXT", 300)
    before, seen = torch.get_num_threads(), []
    hook = session.scope.model.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    try:
        session.look(LookRequest(text="the old lamp"))
        session.look(LookRequest(text="the old lamp " * 120))
    finally:
        hook.remove()
    assert seen == [before, 3]
    assert torch.get_num_threads() == before


def test_what_cannot_be_answered_is_said(session):
    card, _ = open_look(session)
    with pytest.raises(ForgottenLookError, match="the text of look 'gone' is no longer kept"):
        session.look(LookRequest(look="gone"))
    with pytest.raises(InputError, match="this text is empty"):
        open_look(session, "   ")
    with pytest.raises(HeadNameError, match=r"7\.0: this model has layers 0–1"):
        session.predict(PredictRequest(look=card.look, position=2, off=["7.0"]))
    edge = Edge(head="0.0", query=90, key=2)
    with pytest.raises(InputError, match=r"the arrow of 0\.0 from token 90 to token 2 is not in this text"):
        session.predict(PredictRequest(look=card.look, position=2, cuts=[edge]))
    with pytest.raises(InputError, match="positions 90 to 99: this text has 15 tokens"):
        session.weights(WeightsRequest(look=card.look, head="0.0", rows=(90, 99), columns=(0, 1)))
    with pytest.raises(InputError, match="token 99 is not in the vocabulary: this model has tokens 0–18"):
        session.attribution(AttributionRequest(look=card.look, site="0", position=2, toward=99))
