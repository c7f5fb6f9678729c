"""Grids of patches, image tokens within a text, seconds, and the pixels that a model has read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

from headscope.models.inputs.media_positions import (
    STRETCHED,
    TILES,
    PatchGrid,
    ShownPicture,
    image_token_grid,
    patch_grid,
    picture_read,
    seconds_covered,
)
from headscope.models.inputs.patch_labels import NOT_TEXT, patch_names
from headscope.models.protocol import Token


def labelled(*names: str) -> list[Token]:
    return [Token(NOT_TEXT, name) for name in names]


def test_labels_are_read_back_as_their_grid() -> None:
    assert patch_grid(labelled("CLS", "register 0", *patch_names(3, 5))) == PatchGrid(2, 3, 5)
    assert patch_grid(labelled(*patch_names(2, 2), "end")) == PatchGrid(0, 2, 2)


@pytest.mark.parametrize(
    "tokens",
    [
        labelled("CLS"),
        labelled(*patch_names(2, 3)[:-1], "[5]"),
        labelled(*patch_names(2, 3)[1:]),
        [Token(5, "patch 0,0")],
    ],
)
def test_what_is_no_whole_grid_is_none(tokens: list[Token]) -> None:
    assert patch_grid(tokens) is None


def test_image_tokens_are_patches_or_squares_of_them() -> None:
    words, image = [Token(4, "the")], Token(9, "<image>")
    assert image_token_grid([*words, *[image] * 24, *words], 9, PatchGrid(1, 4, 6)) == PatchGrid(1, 4, 6)
    assert image_token_grid([*words, *[image] * 6, *words], 9, PatchGrid(1, 4, 6)) == PatchGrid(1, 2, 3)
    assert image_token_grid([*words, *[image] * 5], 9, PatchGrid(1, 4, 6)) is None
    assert image_token_grid([image, *words, image], 9, PatchGrid(0, 1, 2)) is None
    assert image_token_grid(words, None, PatchGrid(0, 1, 1)) is None


def test_times_cover_as_many_seconds_as_there_are_positions() -> None:
    times = labelled(*(f"{0.02 * at:.2f} s" for at in range(1500)))
    assert seconds_covered(times) == pytest.approx(30.0, abs=0.01)
    assert seconds_covered(labelled("0.00 s")) is None
    assert seconds_covered(labelled("CLS", "patch 0,0")) is None


def test_the_picture_is_what_the_processor_made_of_it() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    crops = CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size={"height": 40, "width": 40})
    found = picture_read(dict(crops(Image.fromarray(pixels), return_tensors="pt")), crops)
    assert isinstance(found, ShownPicture)
    np.testing.assert_array_equal(found.pixels, pixels[:, 10:50])
    assert found.note == ""


def test_pixels_of_unknown_normalisation_are_stretched_and_said_to_be() -> None:
    found = picture_read({"x": torch.linspace(-3, 9, 48).reshape(1, 3, 4, 4)}, None)
    assert isinstance(found, ShownPicture)
    assert (found.pixels.min(), found.pixels.max(), found.note) == (0, 255, STRETCHED)


def test_large_pictures_are_made_smaller_and_tiles_are_not_drawn() -> None:
    processor = ViTImageProcessorPil(do_normalize=False)
    found = picture_read({"pixel_values": torch.rand(1, 3, 1500, 2000)}, processor)
    assert isinstance(found, ShownPicture)
    assert found.pixels.shape == (886, 1182, 3)
    assert picture_read({"pixel_values": torch.rand(4, 3, 8, 8)}, processor) == TILES
    assert picture_read({"input_ids": torch.ones(1, 4).long()}, processor) is None


@pytest.mark.parametrize(("channels", "drawn"), [(1, True), (2, False), (3, True), (4, False)])
def test_pictures_of_one_and_three_channels_are_drawn(channels: int, drawn: bool) -> None:
    read = picture_read({"pixel_values": torch.rand(1, channels, 8, 8)}, None)
    assert isinstance(read, ShownPicture) == drawn
