"""Probe inputs: ordinary tokens, lengths that tell stacks apart, and shapes that each family reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from headscope.models.inputs.dummy_inputs import BATCH, TEXT_LENGTH, probe_inputs, tokens


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


class Reads(torch.nn.Module):
    """A model that is only its arguments."""

    def __init__(self, config: Any, main: str = "input_ids") -> None:
        super().__init__()
        self.config, self.main_input_name = config, main


class Pictures(Reads):
    def forward(self, pixel_values: Tensor) -> None: ...


class Waves(Reads):
    def forward(self, input_values: Tensor) -> None: ...


class Features(Reads):
    def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> None: ...


class Everything(Reads):
    def forward(self, input_ids: Tensor, pixel_values: Tensor, decoder_input_ids: Tensor) -> None: ...


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
