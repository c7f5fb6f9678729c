"""A session's responses equal the calls of the Python API."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tests.app.conftest import small_model, word_tokenizer

import headscope
from headscope import ablate, knock_out
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages import kept_looks, tiles
from headscope.app.pages import microscope as session_module
from headscope.app.pages.attribution import AttributionRequest
from headscope.app.pages.microscope import ForgottenLookError, ImportanceRequest, LookRequest, Session
from headscope.app.pages.predictions import HeadArrow, PredictRequest
from headscope.app.pages.schema import QUESTIONS
from headscope.app.pages.tiles import THUMBNAIL_SIDE, WeightsRequest
from headscope.errors import HeadNameError, InputError

TEXT = "the old lamp on the landing burned until morning and the old lamp on the"
LONG = " ".join(["the old lamp on landing burned until morning ."] * 20)


def open_look(session: Session, text: str = TEXT):
    return session.look(LookRequest(text=text))


def test_the_model_response_describes_the_model(session):
    card = session.model()
    assert [site.name for site in card.sites] == ["0", "1"]
    assert {(site.n_heads, site.n_kv_heads, site.causal) for site in card.sites} == {(6, 3, True)}
    assert [question.name for question in card.questions] == [question.name for question in QUESTIONS]


def test_scores_are_mean_masses_over_the_rows_that_can_answer(session, scope):
    card, arrays = open_look(session)
    look = scope.observe(TEXT)
    ids = [token.id for token in look.tokens]
    induction = [i for i in range(1, len(ids)) if any(ids[j - 1] == ids[i] for j in range(1, i))]
    previous = list(range(1, len(ids)))
    for name, rows in (("induction", induction), ("previous", previous)):
        index = [question.name for question in QUESTIONS].index(name)
        assert card.asked[index] == len(rows)
        expected = torch.cat([look.statistics(site).mass[name][0][:, rows].double().mean(1) for site in ("0", "1")])
        np.testing.assert_allclose(arrays["answers"][index], expected, rtol=1e-5, atol=1e-7)


def test_thumbnails_of_a_longer_text_keep_the_maxima(session, scope):
    _, arrays = open_look(session, LONG)
    assert arrays["thumbnails"].shape == (12, THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    strongest = float(scope.observe(LONG).pattern("0.2").max())
    assert arrays["thumbnails"][2].max() == round(255 * strongest**0.5)


def test_weights_are_those_of_the_look_exact_and_pooled(session, scope):
    card, _ = open_look(session, LONG)
    pattern = scope.observe(LONG).pattern("1.2")
    _, exact = session.weights(WeightsRequest(look=card.look, head="1.2", rows=(3, 9), columns=(0, 7)))
    np.testing.assert_allclose(exact["weights"], pattern[3:9, 0:7], atol=1e-6)
    _, pooled = session.weights(WeightsRequest(look=card.look, head="1.2", rows=(0, 160), columns=(0, 160), pool=8))
    expected = pattern[:160, :160].reshape(20, 8, 20, 8).amax((1, 3))
    np.testing.assert_allclose(pooled["weights"], expected, atol=1e-6)


def test_attribution_sums_to_the_output_and_equals_the_look_s(session, scope):
    card, _ = open_look(session)
    mix, arrays = session.attribution(AttributionRequest(look=card.look, site="1", position=5))
    np.testing.assert_allclose(arrays["parts"].sum(0) + arrays["bias"], arrays["output"], atol=1e-5)
    look = scope.observe(TEXT)
    guess = look.predictions(5, 1)[0]
    assert mix.toward is not None
    assert (mix.toward.id, mix.toward.probability) == (guess.token.id, pytest.approx(guess.probability, abs=1e-6))
    shares = look.logit_attribution(guess.token.id, position=5)
    np.testing.assert_allclose(arrays["shares"], list(shares.heads.values()), atol=1e-5)
    np.testing.assert_allclose(arrays["reads"][3], look.weights("1.3", slice(5, 6))[0], atol=1e-6)


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_predictions_with_ablated_heads_equal_those_inside_scope_edit(session, scope, how):
    card, _ = open_look(session)
    response = session.predict(PredictRequest(look=card.look, position=9, off=["0.1", "1.5"], how=how, count=4))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(ablate("0.1", "1.5", how=how)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    ids = [guess.id for guess in response.guesses]
    assert ids == before.topk(4).indices.tolist()
    assert response.without == pytest.approx(after[ids].tolist(), abs=1e-6)
    assert response.kl == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-6)
    assert response.kl > 1e-4


def test_a_knocked_out_arrow_changes_the_prediction_as_scope_edit_does(session, scope):
    card, _ = open_look(session)
    edges = [HeadArrow(head="0.1", query=9, key=2), HeadArrow(head="1.3", query=9, key=9)]
    response = session.predict(PredictRequest(look=card.look, position=9, cuts=edges))
    before = scope.look(TEXT).logits[9].double().softmax(-1)
    with scope.edit(knock_out("0.1", 9, 2), knock_out("1.3", 9, 9)):
        after = scope.look(TEXT).logits[9].double().softmax(-1)
    assert response.without == pytest.approx(after[[guess.id for guess in response.guesses]].tolist(), abs=1e-6)
    assert response.kl == pytest.approx(float((before * (before / after).log()).sum()), abs=1e-6)
    assert response.kl > 1e-6


def test_every_measure_scales_the_pattern(session, scope):
    card, _ = open_look(session, LONG)
    look = scope.observe(LONG)
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


def test_importance_equals_the_scope_s_first_order_importance(session, scope):
    card, _ = open_look(session)
    response, arrays = session.importance(ImportanceRequest(look=card.look))
    expected = {found.head: found.loss.mean for found in scope.importance([TEXT], how="gradient")}
    np.testing.assert_allclose(arrays["importance"], [expected[head] for head in scope.shape.heads()], atol=1e-6)
    assert response.read == 15


def test_importance_of_a_long_text_is_measured_on_its_beginning(session, monkeypatch):
    monkeypatch.setattr(session_module, "MEASURED", 20)
    card, _ = open_look(session, LONG)
    response, _ = session.importance(ImportanceRequest(look=card.look))
    assert response.read == 20


def test_cached_looks_stay_within_the_memory_limit_and_the_latest_stays(session, monkeypatch):
    open_look(session)
    looks = session.kept.whole.looks
    monkeypatch.setattr(kept_looks, "KEPT_BYTES", 0)  # each weighs its bytes alone
    looks.size = 3 * looks.weight
    names = [open_look(session, f"{TEXT} lamp{' lamp' * more}")[0].look for more in range(5)]
    assert session.kept.names() == names[-2:]
    looks.size = 1
    last, _ = open_look(session, LONG)
    assert session.kept.names() == [last.look]


def test_large_tiles_count_to_the_look_they_are_kept_with(session, monkeypatch):
    card, _ = open_look(session)
    before = session.kept.look(card.look).nbytes
    monkeypatch.setattr(tiles, "QUICK", 0)
    _, arrays = session.weights(WeightsRequest(look=card.look, head="0.0", rows=(0, 8), columns=(0, 8), pool=2))
    assert session.kept.look(card.look).nbytes == before + arrays["weights"].nbytes


def test_texts_are_kept_within_so_many_bytes_for_all_models(session):
    another = headscope.load(small_model(1), word_tokenizer(), name="another")
    registry = ModelRegistry(session, Session(another))
    other, texts = registry.session("another"), session.kept.whole.texts
    assert other.kept.whole is session.kept.whole
    for each in (session, other):
        each.look(LookRequest(text=TEXT))
    assert len(texts) == 2
    texts.size = 2 * sys.getsizeof(TEXT)
    session.look(LookRequest(text=TEXT + " lamp"))
    assert sum(map(sys.getsizeof, texts.values())) <= texts.size
    assert TEXT + " lamp" in texts.values()


@pytest.fixture
def encoded(session, monkeypatch) -> list[int]:
    """How many characters the tokenizer is given, call by call."""
    processor, given = session.scope.model.processor, []
    encode = processor._encoded

    def counted(text: str, what: str, **options: bool):
        given.append(len(text))
        return encode(text, what, **options)

    monkeypatch.setattr(processor, "_encoded", counted)
    return given


@pytest.mark.parametrize("pairs", [641, 700])
def test_a_text_longer_than_the_context_is_truncated(session, encoded, pairs):
    """It is split into tokens whole where that is no more work than finding out that its beginning is enough."""
    card, _ = open_look(session, "the lamp " * pairs)
    assert (card.read, card.length, len(card.tokens)) == (1280, 2 * pairs, 1280)
    assert encoded[-1] == 9 * pairs


def test_of_a_million_characters_only_the_beginning_is_tokenized(session, encoded):
    text = ("the old lamp burned " * 50_000)[:1_000_000]
    card, _ = open_look(session, text)
    assert encoded == [1280, 2560, 5120, 10_240]
    assert (card.read, card.length) == (1280, None)
    assert [token.id for token in card.tokens] == session.scope.model.processor.token_ids(text)[:1280]
    again, _ = session.look(LookRequest(look=card.look))
    assert again == card


@pytest.mark.parametrize("blanks", [150_000, 900_000])
def test_a_long_text_of_few_tokens_is_read_up_to_so_many_characters(session, encoded, blanks):
    card, _ = open_look(session, "lamp" + " " * blanks + "lamp")
    assert max(encoded) == session_module.MOST_SPLIT
    assert (card.read, card.length) == (1, None)
    with pytest.raises(InputError, match="the list of tokens is empty"):
        open_look(session, "\u2003" * blanks + "lamp")


def test_a_short_text_of_many_tokens_is_truncated():
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, "[UNK]"))
    steps, each = tokenizers.pre_tokenizers, tokenizers.Regex(".")
    inner.pre_tokenizer = steps.Sequence([steps.ByteLevel(False, use_regex=False), steps.Split(each, "isolated")])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    with headscope.load(small_model(1), tokenizer) as opened:
        card, _ = open_look(Session(opened), "🧬" * 400)
    assert (card.read, card.length) == (1280, 1600)


def test_invalid_requests_to_a_session_are_refused(session):
    card, _ = open_look(session)
    with pytest.raises(ForgottenLookError, match="the text of look 'gone' is no longer kept"):
        session.look(LookRequest(look="gone"))
    with pytest.raises(InputError, match="this text is empty"):
        open_look(session, "   ")
    with pytest.raises(HeadNameError, match=r"7\.0: this model has layers 0–1"):
        session.predict(PredictRequest(look=card.look, position=2, off=["7.0"]))
    edge = HeadArrow(head="0.0", query=90, key=2)
    with pytest.raises(InputError, match=r"the arrow of 0\.0 from token 90 to token 2 is not in this text"):
        session.predict(PredictRequest(look=card.look, position=2, cuts=[edge]))
    with pytest.raises(InputError, match="positions 90 to 99: this text has 15 tokens"):
        session.weights(WeightsRequest(look=card.look, head="0.0", rows=(90, 99), columns=(0, 1)))
    with pytest.raises(InputError, match="token 99 is not in the vocabulary: this model has tokens 0–18"):
        session.attribution(AttributionRequest(look=card.look, site="0", position=2, toward=99))
