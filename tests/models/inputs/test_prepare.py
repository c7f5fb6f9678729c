"""Inputs of a transformers model: tensors by name, features alone, and refusals of what it does not read."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.models import tiny

from headscope.errors import InputError
from headscope.models.huggingface.model import HuggingFaceModel
from headscope.models.inputs.media import MediaProcessors, Picture, Sound
from headscope.models.inputs.prepare import DECODER_INPUTS, _with_prompt, _with_sound
from headscope.models.loading import open_model
from headscope.models.protocol import Prepared

IDS, LONG = torch.tensor([[4, 5, 6]]), torch.zeros(1, 200, dtype=torch.long)
MELS, PIXELS = torch.randn(1, 8, 100), torch.rand(1, 3, 32, 32)


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[str, HuggingFaceModel]]:
    """One of each kind: a text alone, a text beside another, sound beside a text, a picture."""
    made = {
        "llama": open_model(tiny.llama(), tiny.tokenizer()),
        "t5": open_model(tiny.t5(), tiny.tokenizer()),
        "whisper": open_model(tiny.whisper()),
        "vit": open_model(tiny.vit()),
    }
    yield made
    for model in made.values():
        model.close()


def texts(tokens: tuple[Any, ...]) -> list[str]:
    return [token.text for token in tokens]


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("llama", {}, r"cannot give this model nothing; it takes tensors named .*attention_mask, .*input_ids"),
        ("llama", {"input_ids": [4, 5]}, r"cannot give this model 'input_ids'; it takes tensors"),
        ("llama", {"input_ids": IDS, "colour": IDS}, r"cannot give this model 'colour'; it takes tensors"),
        ("llama", {"input_ids": IDS.expand(2, 3)}, "2 texts at once; look at one text at a time"),
        ("llama", {"input_ids": IDS + 93}, r"token 97 is outside this model's vocabulary of 0–96"),
        ("llama", {"input_ids": LONG}, r"the text has 200 tokens, and this model reads at most 128"),
        ("llama", {"input_ids": IDS[:, :0]}, "the text is empty"),
        ("t5", {"input_ids": IDS, "decoder_input_ids": IDS.expand(2, 3)}, "2 texts at once"),
        ("t5", {"input_ids": IDS, "decoder_input_ids": IDS + 93}, "token 97 is outside"),
        ("whisper", MELS.expand(2, 8, 100), "2 of input_features at once; look at one at a time"),
        ("vit", "the horse", "ViTModel reads pictures, not text"),
        ("vit", PIXELS.expand(3, 3, 32, 32), "3 of pixel_values at once"),
        ("vit", PIXELS[:, :, :30, :30], r"this model does not run on pixel_values \(1, 3, 30, 30\): "),
    ],
)
def test_inputs_that_a_model_does_not_take_are_refused(
    opened: dict[str, HuggingFaceModel], model: str, given: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        opened[model].prepare(given)


def test_both_texts_of_an_encoder_decoder_have_tokens(opened: dict[str, HuggingFaceModel]) -> None:
    made = opened["t5"].prepare({"input_ids": IDS, "decoder_input_ids": torch.tensor([[0, 7]])})
    assert (texts(made.tokens), texts(made.decoder_tokens)) == (["the", "horse", "crossed"], ["[pad]", "road"])
    assert made.stacks == {}


@pytest.mark.parametrize(("model", "features"), [("whisper", MELS), ("vit", PIXELS)])
def test_features_alone_are_the_models_main_input(
    opened: dict[str, HuggingFaceModel], model: str, features: torch.Tensor
) -> None:
    """With or without a batch of one."""
    for given in (features, features[0]):
        made = opened[model].prepare(given)
        assert torch.equal(made.inputs[opened[model].model.main_input_name], features)
    assert ("decoder_input_ids" in made.inputs) == (model == "whisper")


def test_a_decoder_next_to_features_begins_with_its_start_token(opened: dict[str, HuggingFaceModel]) -> None:
    made = opened["whisper"].prepare(MELS)
    assert made.inputs["decoder_input_ids"].tolist() == [[1]]
    assert texts(made.decoder_tokens) == ["[1]"]
    assert texts(made.tokens) == [f"frame {index}" for index in range(50)]


def test_positions_of_a_picture_next_to_a_text_belong_to_their_own_stack() -> None:
    both = open_model(tiny.clip(), tiny.tokenizer())
    made = both.prepare({"input_ids": IDS, "pixel_values": PIXELS[:, :, :16, :16]})
    assert texts(made.tokens) == ["the", "horse", "crossed"]
    assert {stack: texts(names)[:2] for stack, names in made.stacks.items()} == {"vision": ["CLS", "patch 0,0"]}
    both.close()


def test_a_sound_is_kept_with_its_rate_or_its_extractors() -> None:
    prepared = Prepared({"input_features": MELS}, ())
    processors = MediaProcessors(sound=SimpleNamespace(sampling_rate=8000))
    for rate, found in ((4000, 4000), (None, 8000)):
        kept = _with_sound(prepared, Sound(np.array([0.5, 0.25], dtype=np.float32), rate), processors)
        assert kept.samples is not None
        assert (kept.sampling_rate, kept.samples.tolist()) == (found, [0.5, 0.25])
    assert _with_sound(prepared, Picture(np.zeros((2, 2, 3), dtype=np.uint8)), processors) is prepared


def test_what_was_written_so_far_follows_the_decoders_prompt(opened: dict[str, HuggingFaceModel]) -> None:
    start = torch.tensor([[1]])
    without, unprompted = {"pixel_values": PIXELS}, {"input_ids": IDS, DECODER_INPUTS: start}
    assert _with_prompt(opened["vit"], without, None) is without
    assert _with_prompt(opened["llama"], unprompted, "it was") is unprompted
    assert _with_prompt(opened["t5"], unprompted, "it was")[DECODER_INPUTS].tolist() == [[0]], "the encoder reads it"
    heard = {"input_features": MELS, DECODER_INPUTS: start}
    reads = open_model(tiny.whisper(), tiny.tokenizer())
    prompt = _with_prompt(reads, heard, None)[DECODER_INPUTS].tolist()[0]
    assert _with_prompt(reads, heard, "it was")[DECODER_INPUTS].tolist() == [[*prompt, 9, 10]]
    reads.close()
