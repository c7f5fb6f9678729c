"""Exported pages hold the look's data and everything they need, and request nothing."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
import torch
import transformers
from tests.app.conftest import WORDS, small_model, word_tokenizer

import headscope
from headscope.app.export import html
from headscope.app.export.html import bundle, page, save_html
from headscope.app.wire import unpack
from headscope.errors import InputError

TEXT = "the old lamp on the landing burned until morning"


@pytest.fixture
def look(scope):
    return scope.look(TEXT)


def test_an_exported_file_holds_every_pattern_exactly(look):
    found = unpack(bundle(look))
    for head in look.shape.heads():
        inner = unpack(found.arrays[f"weights {head}"].tobytes())
        np.testing.assert_array_equal(inner.arrays["weights"], look.pattern(head))


def test_an_exported_file_holds_all_predictions_and_the_last_position_s_attribution(look):
    found = unpack(bundle(look))
    guesses = [response["guesses"][0]["id"] for response in found.values["predictions"]]
    assert guesses == look.logits.argmax(-1).tolist()
    mix = unpack(found.arrays["attribution 1 8"].tobytes())
    np.testing.assert_array_equal(mix.arrays["parts"], look.contributions(8).sites["1"].parts)


def test_an_exported_file_is_self_contained(look, tmp_path):
    save_html(look, tmp_path / "look.html")
    html = (tmp_path / "look.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']""", html.split("<script")[0])
    assert "url(./" not in html
    data = re.search(r'id="headscope-data">([^<]+)<', html)
    assert data is not None
    assert base64.b64decode(data[1]) == bundle(look)


def made(values, arrays):
    """Every weight of a site, by the formula that the browser uses, one row at a time."""
    q, k, lse, runs = (arrays[name] for name in ("q", "k", "logsumexp", "runs"))
    weights = np.zeros((len(q), q.shape[1], k.shape[1]))
    for head, row in np.ndindex(weights.shape[:2]):
        low, high = runs[row]
        scores = values["scale"] * k[head * len(k) // len(q), low:high].astype(float) @ q[head, row]
        if values["softcap"] is not None:
            scores = values["softcap"] * np.tanh(scores / values["softcap"])
        weights[head, row, low:high] = np.exp(scores - lse[head, row])
    return weights


SMALL = {
    "vocab_size": len(WORDS) + 1, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
FAMILIES = {
    "causal": lambda: small_model(),
    "window": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, sliding_window=7)),
    "cap and window": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SMALL, sliding_window=7, attn_logit_softcapping=3.0)
    ),
    "sinks": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**SMALL, sliding_window=7, num_local_experts=2, num_experts_per_tok=1)
    ),
    "both ways": lambda: transformers.BertModel(
        transformers.BertConfig(vocab_size=len(WORDS) + 1, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
                                intermediate_size=64)
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_text_is_exported_as_q_k_and_logsumexp(family):
    torch.manual_seed(1)
    with headscope.load(FAMILIES[family]().eval(), word_tokenizer()) as scope:
        look = scope.look([index % len(WORDS) + 1 for index in range(0, 180, 3)])
        for site in look.sites:
            found = unpack(unpack(bundle(look)).arrays[f"parts {site}"].tobytes())
            dense = np.stack([look.pattern(head) for head in look.shape.sites[site].heads()])
            np.testing.assert_allclose(made(found.values, found.arrays), dense, atol=1e-6)
            assert sum(array.nbytes for array in found.arrays.values()) < dense.nbytes


def test_weights_with_a_bias_are_exported_as_weights():
    config = transformers.T5Config(vocab_size=len(WORDS) + 1, d_model=48, d_kv=8, d_ff=64, num_layers=1, num_heads=6)
    with headscope.load(transformers.T5EncoderModel(config).eval(), word_tokenizer()) as scope:
        look = scope.look([1 + index % 7 for index in range(60)])
        arrays = unpack(bundle(look)).arrays
        assert not any(name.startswith("parts ") for name in arrays)
        for head in look.shape.heads():
            np.testing.assert_array_equal(
                unpack(arrays[f"weights {head}"].tobytes()).arrays["weights"], look.pattern(head)
            )


def test_a_look_too_large_to_export_is_refused_with_its_size(look, monkeypatch):
    monkeypatch.setattr(html, "LARGEST", 2**10)
    with pytest.raises(InputError, match=r"9 tokens × 12 heads are 0 MiB of numbers, .* export a shorter text"):
        page(look)
