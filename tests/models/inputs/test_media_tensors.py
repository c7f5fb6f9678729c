"""What a model's processor is given for a picture or sound and its text, and what of its answer reaches the model."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models.media import TextsKept

from headscope.errors import InputError
from headscope.models.inputs.media import (
    FEATURES,
    PIXELS,
    WAVE,
    MediaProcessors,
    Picture,
    Sound,
    media_tensors,
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
