"""Probe inputs: ordinary tokens, lengths that tell stacks apart, and shapes that each family reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tests.models import tiny
from torch import Tensor

from headscope.models.inputs.dummy_inputs import BATCH, TARGET_LENGTH, TEXT_LENGTH, probe_inputs, tokens
from headscope.models.modes import device_of


def config(**values: Any) -> Any:
    return SimpleNamespace(**values)


@pytest.mark.parametrize("vocabulary", [30, 97, 4095, 4096, 50_000])
def test_tokens_are_not_special_and_differ(vocabulary: int) -> None:
    special = {"pad_token_id": 0, "bos_token_id": 8, "eos_token_id": [20, 21], "image_token_index": 7}
    found = tokens(config(vocab_size=vocabulary, **special), TEXT_LENGTH)
    assert found.shape == (BATCH, TEXT_LENGTH)
    assert 0 <= int(found.min()) <= int(found.max()) < vocabulary
    assert not set(found.flatten().tolist()) & {0, 8, 20, 21, 7}
    assert all(len(set(row)) == TEXT_LENGTH for row in found.tolist())
    assert found[0].tolist() != found[1].tolist()


def test_the_text_config_comes_first() -> None:
    text = config(vocab_size=40, pad_token_id=7)
    both = config(vocab_size=9000, bos_token_id=20, get_text_config=lambda: text)
    found = set(tokens(both, 12).flatten().tolist())
    assert max(found) < 40
    assert not found & {7, 20}


def test_an_empty_config_still_gives_tokens() -> None:
    assert int(tokens(config(), 5).max()) < 100
    nothing = tokens(config(vocab_size=0), 5)
    assert 0 <= int(nothing.min()) <= int(nothing.max()) < 100
    assert tokens(config(vocab_size=1), 5).unique().tolist() == [0]
    assert tokens(config(vocab_size="many"), 5).tolist() == tokens(config(), 5).tolist()


@pytest.mark.parametrize("vocabulary", [4096, 5000, 50_000])
def test_tokens_of_a_large_vocabulary_are_far_from_its_ends(vocabulary: int) -> None:
    """Special tokens are there."""
    found = tokens(config(vocab_size=vocabulary), 2000)
    assert 1000 <= int(found.min()) <= int(found.max()) < vocabulary - 1000


def test_a_decoder_reads_one_text() -> None:
    (guess,) = probe_inputs(tiny.llama())
    assert {name: tuple(value.shape) for name, value in guess.items()} == {"input_ids": (BATCH, TEXT_LENGTH)}


def test_two_stacks_are_told_apart_by_their_lengths() -> None:
    guess = probe_inputs(tiny.t5())[0]
    assert guess["input_ids"].shape == (BATCH, TEXT_LENGTH)
    assert guess["decoder_input_ids"].shape == (BATCH, TARGET_LENGTH)
    assert TEXT_LENGTH != TARGET_LENGTH


def test_cross_attention_in_a_decoder_is_given_encoder_states() -> None:
    guess = probe_inputs(tiny.gpt2(add_cross_attention=True))[0]
    assert guess["encoder_hidden_states"].shape == (BATCH, TEXT_LENGTH + 4, 32)
    assert "encoder_hidden_states" not in probe_inputs(tiny.gpt2())[0]


def test_floats_have_the_models_precision_and_ids_stay_integers() -> None:
    guess = probe_inputs(tiny.gpt2(add_cross_attention=True).to(torch.bfloat16))[0]
    assert guess["encoder_hidden_states"].dtype == torch.bfloat16
    assert guess["input_ids"].dtype == torch.int64


def test_equal_models_are_given_equal_inputs() -> None:
    one, two = (probe_inputs(tiny.gpt2(add_cross_attention=True))[0] for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


class Reads(torch.nn.Module):
    """A model that is only its arguments."""

    def __init__(self, config: Any, main: str = "input_ids") -> None:
        super().__init__()
        self.config, self.main_input_name = config, main


class Pictures(Reads):
    def forward(self, pixel_values: Tensor) -> None: ...


class PicturesAndText(Reads):
    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> None: ...


class Waves(Reads):
    def forward(self, input_values: Tensor) -> None: ...


class Features(Reads):
    def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> None: ...


class Everything(Reads):
    def forward(self, input_ids: Tensor, pixel_values: Tensor, decoder_input_ids: Tensor) -> None: ...


class Crosses(Reads):
    def forward(self, input_ids: Tensor, encoder_hidden_states: Tensor) -> None: ...


class Series(Reads):
    def forward(self, past_values: Tensor) -> None: ...


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Pictures(config(image_size=16, num_channels=1)), (2, 1, 16, 16)),
        (Pictures(config(image_size=(8, 24))), (2, 3, 8, 24)),
        (Pictures(config(image_size={"height": 8, "width": 12})), (2, 3, 8, 12)),
        (Pictures(config(image_size={"height": 8})), (2, 3, 8, 224)),
        (Pictures(config(image_size={"width": 12})), (2, 3, 224, 12)),
        (Pictures(config(vision_config=config(img_size=32, in_chans=4))), (2, 4, 32, 32)),
        (Pictures(config(vision_config={"image_size": 8})), (2, 3, 224, 224)),
        (Pictures(config(image_size=16, num_frames=5)), (2, 5, 3, 16, 16)),
        (Waves(config()), (2, 8000)),
        (Waves(config(num_mel_bins=16, max_length=50, frequency_stride=2)), (2, 50, 16)),
        (Waves(config(num_mel_bins=16, max_length=50)), (2, 8000)),
        (Waves(config(max_length=50, frequency_stride=2)), (2, 8000)),
        (Waves(config(num_mel_bins=16, frequency_stride=2)), (2, 8000)),
        (Features(config(model_type="whisper", num_mel_bins=20)), (2, 20, 100)),
        (Features(config(model_type="whisper", input_dim=20, max_source_positions=30)), (2, 96, 20)),
        (Features(config()), (2, 96, 80)),
        (Series(config()), (2, 32, 1)),
        (Features(config(model_type="whisper", num_mel_bins=20, max_source_positions=30)), (2, 20, 60)),
        (Features(config(model_type="speech_to_text", num_mel_bins=20)), (2, 96, 20)),
        (Features(config(audio_config=config(feature_projection_input_dim=11))), (2, 96, 11)),
        (Series(config(context_length=17, num_input_channels=3)), (2, 17, 3)),
        (Series(config(prediction_length=9)), (2, 9, 1)),
    ],
)
def test_pictures_sound_and_series_have_the_shapes_their_configs_say(model: Reads, shape: tuple[int, ...]) -> None:
    (value,) = probe_inputs(model)[0].values()
    assert tuple(value.shape) == shape
    assert value.is_floating_point()


def names(model: Reads) -> list[list[str]]:
    return [sorted(guess) for guess in probe_inputs(model)]


def test_the_best_guess_comes_first() -> None:
    """A model whose main input is a picture is given that; one that mainly reads text, the text."""
    both = config(vocab_size=50, image_size=8)
    assert names(PicturesAndText(both)) == [["input_ids"], ["input_ids", "pixel_values"], ["pixel_values"]]
    assert names(PicturesAndText(both, "pixel_values")) == [
        ["pixel_values"],
        ["input_ids", "pixel_values"],
        ["input_ids"],
    ]
    audio = config(vocab_size=50, is_encoder_decoder=True, num_mel_bins=8, max_source_positions=4)
    assert names(Features(audio, "input_features"))[0] == ["decoder_input_ids", "input_features"]


def test_what_an_encoder_decoder_mainly_reads_is_given_without_its_text() -> None:
    both = config(vocab_size=50, image_size=8, is_encoder_decoder=True)
    assert names(Everything(both, "pixel_values")) == [
        ["decoder_input_ids", "pixel_values"],
        ["decoder_input_ids", "input_ids"],
    ]
    assert names(Everything(both)) == [
        ["decoder_input_ids", "input_ids"],
        ["decoder_input_ids", "input_ids", "pixel_values"],
        ["decoder_input_ids", "pixel_values"],
    ]
    alone = config(vocab_size=50, image_size=8)
    assert names(Everything(alone)) == [["input_ids"], ["input_ids", "pixel_values"], ["pixel_values"]]


def test_encoder_states_are_given_where_the_config_says_that_they_are_read() -> None:
    assert names(Crosses(config(vocab_size=50))) == [["input_ids"]]
    (guess,) = probe_inputs(Crosses(config(vocab_size=50, add_cross_attention=True)))
    assert guess["encoder_hidden_states"].shape == (BATCH, TEXT_LENGTH + 4, 64)


def test_inputs_go_where_the_first_weights_in_memory_are() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, device="meta"), torch.nn.Linear(2, 2))
    assert device_of(model) == torch.device("cpu")
    assert device_of(torch.nn.Linear(2, 2, device="meta")) == torch.device("cpu")


@pytest.mark.parametrize(
    ("kind", "model", "sizes"),
    [
        ("ViTConfig", "ViTModel", {"image_size": 16, "patch_size": 8}),
        ("WhisperConfig", "WhisperModel", {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 8,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_source_positions": 12, "vocab_size": 60,
         "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pad_token_id": 0, "decoder_start_token_id": 1}),
    ],
)  # fmt: skip
def test_real_families_run_on_the_first_guess(kind: str, model: str, sizes: dict[str, Any]) -> None:
    small = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    made = getattr(transformers, model)(getattr(transformers, kind)(**(small if kind == "ViTConfig" else {}), **sizes))
    with torch.no_grad():
        output = made.eval()(**probe_inputs(made)[0])
    assert torch.isfinite(output.last_hidden_state).all()
