"""Grids of patches, image tokens within a text, seconds, and the pixels that a model has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil

from headscope.models.inputs.media import GRID_OF_PATCHES, PIXELS
from headscope.models.inputs.media_positions import (
    NOT_TEXT,
    STRETCHED,
    TILES,
    PatchGrid,
    ShownPicture,
    image_token_grid,
    name_image_tokens,
    patch_grid,
    patch_names,
    picture_read,
    seconds_covered,
)
from headscope.models.protocol import Token


def labelled(*names: str) -> list[Token]:
    return [Token(NOT_TEXT, name) for name in names]


def test_labels_are_read_back_as_their_grid() -> None:
    assert patch_grid(labelled("CLS", "register 0", *patch_names(3, 5))) == PatchGrid(2, 3, 5)
    assert patch_grid(labelled(*patch_names(2, 2), "end")) == PatchGrid(0, 2, 2)


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
    assert found.note == STRETCHED
    expected = (np.linspace(0, 1, 48) * 255).round().reshape(3, 4, 4).transpose(1, 2, 0)
    np.testing.assert_array_equal(found.pixels, expected)


def test_image_tokens_are_named_by_their_patches_and_are_not_copies_of_each_other() -> None:
    words, image = Token(4, "the"), Token(9, "<image>")
    named = name_image_tokens([words, *[image] * 4, words], 9, PatchGrid(0, 4, 4))
    assert named == (words, *labelled("patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"), words)
    assert name_image_tokens([words, image], 9, None) == (words, image)


@pytest.mark.parametrize(
    ("count", "vision", "grid"),
    [
        (1, PatchGrid(0, 3, 3), PatchGrid(1, 1, 1)),
        (2, PatchGrid(0, 3, 6), PatchGrid(1, 1, 2)),
        (6, PatchGrid(0, 5, 7), None),
        (4, PatchGrid(0, 4, 5), None),
        (4, PatchGrid(0, 5, 4), None),
    ],
)
def test_merged_squares_fill_the_grid_of_patches(count: int, vision: PatchGrid, grid: PatchGrid | None) -> None:
    assert image_token_grid([Token(4, "the"), *[Token(9, "<image>")] * count], 9, vision) == grid


def listed(picture: torch.Tensor, size: int, merged: int, frames: int) -> torch.Tensor:
    """A picture as a list of patches, squares of them one after the other, as Qwen's processor makes it."""
    height, width = picture.shape[1] // size, picture.shape[2] // size
    rows = []
    for top in range(0, height, merged):
        for left in range(0, width, merged):
            for row in range(top, top + merged):
                for column in range(left, left + merged):
                    patch = picture[:, row * size : (row + 1) * size, column * size : (column + 1) * size]
                    rows.append(patch[:, None].expand(-1, frames, -1, -1).reshape(-1))
    return torch.stack(rows)


@pytest.mark.parametrize(("merged", "frames"), [(1, 1), (2, 2)])
def test_a_picture_is_put_together_from_its_list_of_patches(merged: int, frames: int) -> None:
    picture = torch.randint(0, 256, (3, 8, 12)).float() / 255
    processor = SimpleNamespace(patch_size=2, merge_size=merged, temporal_patch_size=frames, do_rescale=True)
    inputs = {PIXELS: listed(picture, 2, merged, frames), GRID_OF_PATCHES: torch.tensor([[1, 4, 6]])}
    found = picture_read(inputs, processor)
    assert isinstance(found, ShownPicture)
    np.testing.assert_array_equal(found.pixels, (picture * 255).round().byte().permute(1, 2, 0).numpy())
    assert picture_read(inputs, SimpleNamespace(patch_size=2, merge_size=None, temporal_patch_size=1)) == TILES
    assert picture_read(inputs, SimpleNamespace(patch_size=3, merge_size=merged, temporal_patch_size=frames)) == TILES


@pytest.mark.parametrize(
    ("how", "known"),
    [
        ({"do_rescale": False}, False),
        ({"do_normalize": True}, False),
        ({"do_normalize": True, "image_mean": [0.5], "image_std": [0.5]}, False),
        ({"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, True),
        ({}, True),
    ],
)
def test_pixels_are_restored_where_the_processor_says_how_they_were_made(how: dict[str, Any], known: bool) -> None:
    read = picture_read({PIXELS: torch.full((1, 3, 2, 2), 0.5)}, SimpleNamespace(**how))
    assert isinstance(read, ShownPicture)
    assert (read.note == "") is known
    assert read.pixels.max() == ((191 if how.get("do_normalize") else 128) if known else 0)


def test_latents_are_shown_by_their_principal_components() -> None:
    wave = torch.linspace(-1, 1, 20).reshape(4, 5)
    latents = torch.stack([4 * wave, 0.1 * wave.flip(0), 0 * wave, 0 * wave])[None]
    read = picture_read({"mask": torch.zeros(1, 4, 4, 5).long(), "sample": latents}, None)
    assert isinstance(read, ShownPicture)
    assert read.pixels.shape == (4, 5, 3)
    assert read.note.startswith("these are the 4 channels")
    brighter = picture_read({"sample": latents + 5}, None)
    assert isinstance(brighter, ShownPicture)
    np.testing.assert_allclose(brighter.pixels[..., 0].astype(float), read.pixels[..., 0].astype(float), atol=1)
    expected = ((wave + 1) / 2 * 255).round().numpy()
    np.testing.assert_allclose(read.pixels[..., 0].astype(float), expected, atol=3)
    two = picture_read({"sample": latents[:, :2]}, None)
    assert isinstance(two, ShownPicture)
    assert two.note.startswith("these are the 2 channels")
    assert not two.pixels[..., 2].any(), "two channels have two components"
