"""Texts read in one padded batch are what each is alone; a model for which they are not is read text by text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from tests.heads.conftest import counting_forwards
from tests.models import tiny
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


def _rotated_by_length() -> transformers.PreTrainedModel:
    """A Phi-3 whose rotations are others where what it reads is longer than 10 tokens."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": 10}
    return tiny.build(
        "Phi3Config", "Phi3ForCausalLM", **{**tiny.SIZES, "num_key_value_heads": 2}, max_position_embeddings=64,
        original_max_position_embeddings=10, rope_parameters={"rope_type": "longrope", "rope_theta": 1e4, **factors},
    )  # fmt: skip


def _with_a_convolution() -> transformers.PreTrainedModel:
    """A ConvBERT, which reads the tokens beside each one."""
    return tiny.build("ConvBertConfig", "ConvBertForMaskedLM", **tiny.SIZES, embedding_size=32, conv_kernel_size=3)


@pytest.mark.parametrize("made", [_rotated_by_length, _with_a_convolution])
@pytest.mark.parametrize("first", [[[5, 6, 7, 8, 9, 10], [20, 21, 22, 23, 24, 25]], [[5, 6], [5, 6, 8, 9]]])
def test_a_batch_of_other_lengths_than_the_first_is_compared_again(
    made: Callable[[], transformers.PreTrainedModel], first: list[list[int]]
) -> None:
    own, scope, texts = made(), headscope.load(made(), tiny.tokenizer()), [[7], [5, 9, 7, 4, 8], list(range(30, 60))]
    scope.look(first)
    for text, together in zip(texts, scope.look(texts), strict=True):
        with torch.no_grad():
            alone = own(torch.tensor([text])).logits[0]
        torch.testing.assert_close(together.logits, alone, atol=1e-4, rtol=1e-4)


def test_an_encoder_that_reads_padding_is_found_where_the_decoders_texts_are_of_one_length() -> None:
    own, model = small("t5"), small("t5")
    for each in (own, model):  # every token of the encoder also receives the one after it
        each.encoder.block[0].register_forward_pre_hook(lambda _, given: (given[0] + given[0].roll(-1, 1), *given[1:]))
    texts = [list(range(30, 50)), [5, 6, 7, 8, 9]]
    for text, together in zip(texts, headscope.load(model).look(texts), strict=True):
        inputs = {name: value.clone() for name, value in together.prepared.inputs.items()}
        assert inputs["input_ids"].tolist() == [text]
        with torch.no_grad():
            torch.testing.assert_close(together.logits, own(**inputs).logits[0], atol=1e-4, rtol=1e-4)


def test_lengths_between_those_that_were_compared_are_not_compared_again() -> None:
    scope = headscope.load(tiny.llama(), tiny.tokenizer())
    scope.look([[5, 6, 7, 8], list(range(30, 50))])
    with counting_forwards(scope) as ran:
        scope.look([[5, 6, 7, 8, 9], list(range(30, 40))])
    assert len(ran) == 1
    with counting_forwards(scope) as ran:
        scope.look([[5, 6, 7], list(range(30, 40))])
    assert len(ran) == 2
