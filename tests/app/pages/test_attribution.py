"""Logit attribution on the page: a typed token is resolved or refused, and its logit split over the heads."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
import transformers

import headscope
from headscope.app.pages.attribution import AttributionRequest, AttributionResponse, find_token
from headscope.app.pages.microscope import LookRequest, Session
from headscope.errors import InputError
from headscope.scope import Scope

TEXT = "the old lamp on landing burned until morning and stairs"


@pytest.fixture(scope="module")
def embedded():
    with headscope.load() as opened:
        yield opened


def asked(session: Session, **fields: int) -> tuple[AttributionResponse, np.ndarray]:
    card, _ = session.look(LookRequest(text=TEXT))
    mix, arrays = session.attribution(AttributionRequest(look=card.look, site="1", position=5, **fields))
    return mix, arrays["shares"]


def test_the_shares_of_a_logit_difference_are_the_difference_of_the_shares(session: Session, scope: Scope):
    mix, shares = asked(session, toward=4, minus=7)
    assert mix.toward is not None
    assert mix.minus is not None
    assert (mix.toward.id, mix.minus.id) == (4, 7)
    found = scope.look(TEXT).logit_attribution(4, minus=7, position=5)
    np.testing.assert_allclose(shares, list(found.heads.values()), atol=1e-5)
    np.testing.assert_allclose(shares, asked(session, toward=4)[1] - asked(session, toward=7)[1], atol=1e-4)


@pytest.mark.parametrize(
    ("typed", "reads", "of", "spaced"),
    [
        (" road", " road", 1, None),
        ("road", "road", 1, " road"),  # after a space it is another token
        ("snowmobile", "s", 5, " snow"),
        (" snowmobile", " snow", 4, None),
        ("\n", "\n", 1, None),
        ("  ", "  ", 1, None),
        ("🐎", "�", 3, None),  # bytes of a sign are tokens too
    ],
)
def test_a_typed_text_resolves_to_its_first_token(embedded: Scope, typed: str, reads: str, of: int, spaced: str | None):
    found = find_token(embedded.model, typed)
    assert (found.text, found.of, found.spaced and found.spaced.text) == (reads, of, spaced)
    assert embedded.model.processor.token_ids(typed)[0] == found.id


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "no token was typed; type a word, with a space before it where the text has one"),
        ("zebra", r"this model has no token for 'zebra': it reads \[UNK\], its unknown token"),
        ("   ", "'   ' has no tokens for this model; type a word or a sign"),
    ],
)
def test_text_without_a_token_is_refused(scope: Scope, typed: str, said: str):
    with pytest.raises(InputError, match=said):
        find_token(scope.model, typed)


def test_a_lower_casing_tokenizer_still_finds_the_word():
    vocabulary = {"[UNK]": 0, "ete": 1, "lamp": 2}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    config = transformers.LlamaConfig(
        vocab_size=3, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    reader = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    with headscope.load(transformers.LlamaForCausalLM(config), reader) as scope:
        assert find_token(scope.model, "Été").id == 1


def test_an_encoder_has_no_next_token(tmp_path):
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with (
        headscope.load(transformers.BertModel(config)) as scope,
        pytest.raises(InputError, match="predicts no tokens, so no logit can be split over its heads"),
    ):
        find_token(scope.model, "lamp")


def test_the_token_route_finds_a_token(client):
    response = client.post("/api/token", json={"text": "lamp and more"})
    assert (response.status_code, response.json()) == (200, {"id": 3, "text": "lamp", "of": 3, "spaced": None})
    refused = client.post("/api/token", json={"text": "zebra"})
    assert refused.status_code == 422
    assert refused.json()["message"].startswith("this model has no token for 'zebra'")
