"""Texts read in one padded batch are what each is alone; a model for which they are not is read text by text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from tests.heads.conftest import counting_forwards
from torch import Tensor

import headscope
from headscope import ablate
from headscope.scope import Scope

TEXTS = [list(range(5, 20)), [7], [3, 4, 3, 4, 3], list(range(30, 50))]


def small(family: str) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 97,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    models: dict[str, Callable[[], transformers.PreTrainedModel]] = {
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**sizes)),
        "mistral, windowed": lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(**sizes, num_key_value_heads=2, sliding_window=6)
        ),
        "t5": lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=97, d_model=48, d_kv=12, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
            )
        ),
    }
    return models[family]().eval()


def assert_equal_looks(scope: Scope) -> None:
    for text, together in zip(TEXTS, scope.look(TEXTS), strict=True):
        alone = scope.look(text)
        torch.testing.assert_close(together.logits, alone.logits, atol=1e-4, rtol=1e-4)
        for site in alone.sites:
            torch.testing.assert_close(together.patterns(site), alone.patterns(site), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(together.z(site), alone.z(site), atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(
                together.statistics(site).entropy, alone.statistics(site).entropy, atol=1e-4, rtol=1e-4
            )
            for name, means in alone.mean_answers(site).items():
                torch.testing.assert_close(together.mean_answers(site)[name], means, atol=1e-4, rtol=1e-4)


def test_a_batch_is_its_texts_one_by_one_in_one_pass(scope: Scope) -> None:
    assert_equal_looks(scope)
    with counting_forwards(scope) as ran:
        looks = scope.look(TEXTS)
    assert len(ran) == 1, "the comparison with a text alone is made once per scope"
    shares = looks[0].logit_attribution(11).heads
    assert shares == pytest.approx(scope.look(TEXTS[0]).logit_attribution(11).heads, abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "mistral, windowed", "t5"])
def test_encoders_windows_and_cross_attention_too(family: str) -> None:
    with headscope.load(small(family)) as scope:
        assert_equal_looks(scope)
        with counting_forwards(scope) as ran:
            scope.look(TEXTS)
        assert len(ran) == 1


def test_edits_apply_to_every_text(scope: Scope) -> None:
    with scope.edit(ablate("1.2")):
        for text, look in zip(TEXTS, scope.look(TEXTS), strict=True):
            torch.testing.assert_close(look.logits, scope.look(text).logits, atol=1e-4, rtol=1e-4)
            assert look.z("1")[2].abs().max() == 0


class Mixes(torch.nn.Module):
    """Adds the mean over all positions, padding included."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x)
        return made + made.mean(1, keepdim=True)


def test_a_model_that_mixes_positions_elsewhere_is_read_text_by_text(llama: Scope) -> None:
    block = llama.model.model.model.layers[0]
    block.mlp = Mixes(block.mlp).eval()
    assert_equal_looks(llama)
    with counting_forwards(llama) as ran:
        llama.look(TEXTS)
    assert len(ran) == len(TEXTS)


def test_pairs_and_messages_and_ids_are_still_one_text(llama: Scope) -> None:
    assert len(llama.look([5, 6, 7]).tokens) == 3
    assert [len(look.tokens) for look in llama.look([[5, 6, 7], [8]])] == [3, 1]
