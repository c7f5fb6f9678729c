"""What a model's processor is given for a picture or sound and its text, and what of its answer reaches the model."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.models.media import TextsKept

from headscope.errors import InputError
from headscope.models.inputs.media import (
    FEATURES,
    HIGHEST_RATE,
    MOST_CHANNELS,
    PIXELS,
    WAVE,
    MediaProcessors,
    Picture,
    Sound,
    media_tensors,
    recognise,
    resampled,
)

SAMPLES = np.array([0.5, -0.5, 0.25], dtype=np.float32)
IMAGE = Picture(np.zeros((4, 4, 3), dtype=np.uint8))
BOTH = frozenset({"input_ids", PIXELS})


def test_a_sound_has_no_place_in_its_text() -> None:
    both = TextsKept(image_token="<image>")
    takes = frozenset({"input_ids", FEATURES})
    made = media_tensors(Sound(SAMPLES), "the horse", MediaProcessors(None, both, both), takes, "a model")
    assert both.given == ["the horse"]
    assert set(made) == takes


def test_tensors_that_a_model_takes_reach_it_alone() -> None:
    both = TextsKept()
    takes = BOTH | {"image_sizes"}
    made = media_tensors(IMAGE, "the horse", MediaProcessors(both, None, both), takes, "a model")
    assert set(made) == BOTH, "sizes are no tensor, and no mask is taken"
    alone = media_tensors(IMAGE, None, MediaProcessors(both), frozenset({PIXELS}), "a model")
    assert set(alone) == {PIXELS}


def test_without_a_feature_extractor_samples_are_a_wave_or_refused() -> None:
    made = media_tensors(Sound(SAMPLES), None, MediaProcessors(), frozenset({WAVE}), "a model")
    assert made[WAVE].tolist() == [SAMPLES.tolist()]
    with pytest.raises(InputError, match="no feature extractor was given"):
        media_tensors(Sound(SAMPLES), None, MediaProcessors(), frozenset({FEATURES}), "a model")
    with pytest.raises(InputError, match="with a text needs a processor that takes both; pass it as processor="):
        media_tensors(IMAGE, "the horse", MediaProcessors(TextsKept()), BOTH, "a model")


@pytest.mark.parametrize(("channels", "mixed"), [(1, True), (MOST_CHANNELS, True), (MOST_CHANNELS + 1, False)])
def test_so_many_channels_are_mixed_into_one(channels: int, mixed: bool) -> None:
    given = {"array": np.ones((channels, 30)), "sampling_rate": 1}
    if mixed:
        sound, _ = recognise(given)
        assert isinstance(sound, Sound)
        assert (sound.samples.tolist(), sound.rate) == ([1.0] * 30, 1)
    else:
        with pytest.raises(InputError, match=r"this has the shape \(9, 30\); give one channel"):
            recognise(given)


def test_sounds_of_the_models_own_or_no_known_rate_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for sound in (Sound(SAMPLES, 8000), Sound(SAMPLES)):
        assert resampled(sound, 8000) is sound
    for name in ("torchaudio", "torchaudio.functional", "scipy", "scipy.signal"):
        monkeypatch.setitem(sys.modules, name, None)
    for rate in (0, HIGHEST_RATE + 1):
        with pytest.raises(InputError, match=f"a sound of {rate} samples per second; recordings have 1 to 768,000"):
            resampled(Sound(SAMPLES, rate), 8000)
    for rate in (1, HIGHEST_RATE):
        with pytest.raises(InputError, match=f"has {rate} samples per second and the model reads 8000; resample it"):
            resampled(Sound(SAMPLES, rate), 8000)
