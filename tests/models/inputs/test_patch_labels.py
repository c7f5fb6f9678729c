"""Labels of image patches and audio frames, counted by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headscope.models.inputs.media import FEATURES, GRID_OF_PATCHES, PIXELS, MediaProcessors
from headscope.models.inputs.media_positions import NOT_TEXT, numbered_labels, position_labels


def labels(config: Any, inputs: dict[str, torch.Tensor], count: int, sound: Any = None) -> list[str]:
    found = position_labels(config, inputs, count, MediaProcessors(sound=sound))
    assert len(found) == count
    assert {token.id for token in found} == {NOT_TEXT}
    return [token.text for token in found]


def picture(height: int, width: int) -> dict[str, torch.Tensor]:
    return {PIXELS: torch.zeros(1, 3, height, width)}


def test_patches_are_counted_by_row_then_column() -> None:
    config = SimpleNamespace(patch_size=8)
    expected = ["patch 0,0", "patch 0,1", "patch 0,2", "patch 1,0", "patch 1,1", "patch 1,2"]
    assert labels(config, picture(16, 24), 6) == expected
    assert labels(config, picture(16, 24), 7) == ["CLS", *expected]


def test_register_and_distillation_tokens_come_before_patches() -> None:
    config = SimpleNamespace(patch_size=8, num_register_tokens=2)
    assert labels(config, picture(8, 8), 4) == ["CLS", "register 0", "register 1", "patch 0,0"]
    assert labels(SimpleNamespace(patch_size=8, model_type="deit"), picture(8, 8), 3) == [
        "CLS",
        "distillation",
        "patch 0,0",
    ]


@pytest.mark.parametrize(
    ("config", "inputs", "count"),
    [
        (SimpleNamespace(patch_size=8), picture(16, 16), 9),
        (SimpleNamespace(patch_size=8), picture(16, 16), 3),
        (SimpleNamespace(), picture(16, 16), 3),
        (SimpleNamespace(patch_size=8), {PIXELS: torch.zeros(1, 5, 3, 8, 8)}, 5),
        (SimpleNamespace(patch_size=8, num_register_tokens=2), picture(8, 8), 2),
        (SimpleNamespace(), {}, 2),
    ],
)
def test_unknown_positions_are_numbered(config: Any, inputs: dict[str, torch.Tensor], count: int) -> None:
    """A count that patches do not explain gets no patch labels."""
    assert labels(config, inputs, count) == numbered_labels(count) == [f"[{index}]" for index in range(count)]


def test_times_of_features_are_frames_times_the_hop() -> None:
    extractor = SimpleNamespace(sampling_rate=16_000, hop_length=160, feature_size=80)
    inputs = {FEATURES: torch.zeros(1, 80, 100)}
    assert labels(SimpleNamespace(), inputs, 50, extractor)[:3] == ["0.00 s", "0.02 s", "0.04 s"]
    assert labels(SimpleNamespace(), {FEATURES: torch.zeros(1, 200, 80)}, 50, extractor)[-1] == "1.96 s"


def test_listed_patches_stand_row_by_row_unless_the_model_merges_squares_of_them() -> None:
    inputs = {PIXELS: torch.zeros(8, 12), GRID_OF_PATCHES: torch.tensor([[1, 2, 4]])}
    by_row = [f"patch {row},{column}" for row in range(2) for column in range(4)]
    assert labels(SimpleNamespace(), inputs, 8) == by_row
    assert labels(SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=None)), inputs, 8) == by_row
    squares = labels(SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)), inputs, 8)
    assert squares[:4] == ["patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"]
    assert sorted(squares) == by_row


@pytest.mark.parametrize("grid", [[[1, 2, 4], [1, 2, 4]], [[2, 2, 4]], [[1, 2, 3]]])
def test_a_list_of_patches_that_does_not_fit_is_numbered(grid: list[list[int]]) -> None:
    assert labels(SimpleNamespace(), {PIXELS: torch.zeros(8, 12), GRID_OF_PATCHES: torch.tensor(grid)}, 8)[0] == "[0]"
