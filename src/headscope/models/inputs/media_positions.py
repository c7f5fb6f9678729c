"""Map positions of a look to parts of a picture or sound: grids of patches, seconds; the pixels read.

Everything is read off a look's labels and inputs, so that it is there for a saved look too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headscope.models.inputs.media import FEATURES, GRID_OF_PATCHES, PIXELS, WAVE, MediaProcessors
from headscope.models.protocol import Token

MOST_PIXELS = 2**20
"""Pixels of a picture as it is shown; a larger one is made smaller."""

STRETCHED = "its brightness is stretched: how the pixels were normalised is not known"
TILES = "the model reads this picture in several tiles, or as a list of patches, so none are drawn over it"

LATENTS = "these are the {count} channels that the model reads, their three principal components as red, green and blue"


@dataclass(frozen=True)
class PatchGrid:
    """Patches row by row: ``rows × columns`` positions from ``first`` on."""

    first: int
    rows: int
    columns: int


@dataclass(frozen=True)
class ShownPicture:
    """The pixels that a model has read, cropped and resized by its processor, as bytes; with a note if need be."""

    pixels: npt.NDArray[np.uint8]
    note: str = ""


def patch_grid(tokens: Sequence[Token]) -> PatchGrid | None:
    """The grid of patches among labelled positions; None if there is none, or it is not whole."""
    named = [index for index, token in enumerate(tokens) if token.id == NOT_TEXT and _PATCH.fullmatch(token.text)]
    last = _PATCH.fullmatch(tokens[named[-1]].text) if named else None
    if last is None:
        return None
    grid = PatchGrid(named[0], int(last[1]) + 1, int(last[2]) + 1)
    texts = [token.text for token in tokens[grid.first : grid.first + grid.rows * grid.columns]]
    return grid if texts == patch_names(grid.rows, grid.columns) and len(named) == len(texts) else None


def image_token_grid(tokens: Sequence[Token], image_token: int | None, vision: PatchGrid | None) -> PatchGrid | None:
    """The grid of image tokens within a text: the vision tower's patches, or squares of them merged into one token."""
    places = [index for index, token in enumerate(tokens) if token.id == image_token]
    if not places or vision is None or places != list(range(places[0], places[0] + len(places))):
        return None
    for merged in range(1, min(vision.rows, vision.columns) + 1):
        rows, columns = vision.rows // merged, vision.columns // merged
        if rows * merged == vision.rows and columns * merged == vision.columns and rows * columns == len(places):
            return PatchGrid(places[0], rows, columns)
    return None


def name_image_tokens(tokens: Sequence[Token], image_token: int | None, vision: PatchGrid | None) -> tuple[Token, ...]:
    """Return the tokens, with those that stand for a picture renamed as patches, by row and column.

    Their id is no longer the image token's, which they all share: one patch is no copy of another.
    """
    grid = image_token_grid(tokens, image_token, vision)
    if grid is None:
        return tuple(tokens)
    named = {grid.first + at: name for at, name in enumerate(patch_names(grid.rows, grid.columns))}
    return tuple(Token(NOT_TEXT, named[at]) if at in named else token for at, token in enumerate(tokens))


def image_token_id(config: Any) -> int | None:
    """The token that stands for a part of a picture within a text; None in models that have none."""
    found = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((int(token) for token in found if isinstance(token, int)), None)


def seconds_covered(tokens: Sequence[Token]) -> float | None:
    """The seconds that positions labelled by time cover together; None for other labels."""
    times = [_TIME.fullmatch(token.text) for token in (tokens[0], tokens[-1])] if len(tokens) > 1 else [None]
    if not all(times) or tokens[0].id != NOT_TEXT:
        return None
    begin, end = (float(time[1]) for time in times if time)
    return (end - begin) * len(tokens) / (len(tokens) - 1)


def picture_read(inputs: Mapping[str, Tensor], processor: Any) -> ShownPicture | str | None:
    """The picture among a model's inputs; why it cannot be shown; None if there is none.

    ``processor`` is the image processor, which knows how pixels were normalised.
    """
    pixels = inputs.get(PIXELS)
    if pixels is None:
        alike = (each for each in inputs.values() if each.ndim == 4 and each.shape[1] in (1, 3))
        pixels = next((each for each in alike if each.is_floating_point()), None)
    if pixels is None:
        return _latent_picture(inputs)
    pixels = _from_patches(pixels, inputs, processor) if pixels.ndim == 2 else pixels
    pixels = pixels[0] if pixels.ndim == 5 and pixels.shape[1] == 1 else pixels  # one picture of several that may be
    if pixels.ndim != 4 or len(pixels) != 1 or pixels.shape[1] not in (1, 3):
        return TILES
    image = pixels[0].detach().float().cpu()
    restored = _restored(image, processor)
    low, high = float(image.min()), float(image.max())
    shown = (image - low) / max(high - low, 1e-12) if restored is None else restored
    small = _at_most(shown, MOST_PIXELS).clamp(0, 1)
    small = small.expand(3, -1, -1).permute(1, 2, 0)
    made = (small * 255).round().to(torch.uint8).contiguous().numpy()
    return ShownPicture(made, STRETCHED if restored is None else "")


def _latent_picture(inputs: Mapping[str, Tensor]) -> ShownPicture | None:
    """The latents among a model's inputs: the three principal components of their channels as red, green and blue."""
    alike = (each for each in inputs.values() if each.ndim == 4 and len(each) == 1 and min(each.shape[1:]) > 1)
    latents = next((each for each in alike if each.is_floating_point()), None)
    if latents is None:
        return None
    flat = latents[0].detach().double().cpu().flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    vectors = torch.linalg.eigh(flat @ flat.T).eigenvectors.flip(1)[:, :3]
    vectors = vectors * vectors.sum(0).sign()  # an eigenvector's sign is free
    colours = vectors.T @ flat
    low, high = (colours.amin(1, keepdim=True), colours.amax(1, keepdim=True))
    shown = ((colours - low) / (high - low).clamp(min=1e-12)).reshape(-1, *latents.shape[2:])
    made = torch.zeros(3, *latents.shape[2:])
    made[: len(shown)] = shown
    pixels = (_at_most(made, MOST_PIXELS) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    return ShownPicture(pixels, LATENTS.format(count=latents.shape[1]))


def listed_grid(inputs: Mapping[str, Tensor]) -> PatchGrid | None:
    """The patches of a picture that is given as a list of them; None where it is not one picture."""
    grid = inputs.get(GRID_OF_PATCHES)
    one = grid is not None and len(grid) == 1 and int(grid[0, 0]) == 1
    return PatchGrid(0, int(grid[0, 1]), int(grid[0, 2])) if grid is not None and one else None


def _from_patches(pixels: Tensor, inputs: Mapping[str, Tensor], processor: Any) -> Tensor:
    """A picture ``[1, channel, row, column]`` from its list of patches, where the processor says how it made them."""
    grid = listed_grid(inputs)
    sizes = [getattr(processor, name, None) for name in ("patch_size", "merge_size", "temporal_patch_size")]
    if grid is None or not all(isinstance(size, int) for size in sizes):
        return pixels
    size, merged, frames = (int(each) for each in sizes if each is not None)
    if pixels.shape != (grid.rows * grid.columns, 3 * frames * size * size):
        return pixels
    squares = (grid.rows // merged, grid.columns // merged, merged, merged)
    patches = pixels.reshape(*squares, 3, frames, size, size)[:, :, :, :, :, 0]
    image = patches.permute(4, 0, 2, 5, 1, 3, 6)
    return image.reshape(1, 3, grid.rows * size, grid.columns * size)


def _restored(image: Tensor, processor: Any) -> Tensor | None:
    """Pixels between 0 and 1, before they were normalised; None where that is not known."""
    if processor is None or not getattr(processor, "do_rescale", True):
        return None
    if getattr(processor, "do_normalize", False):
        mean, std = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
        if mean is None or std is None or len(mean) != len(image):
            return None
        image = image * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]
    return image if bool((image > -0.05).all() and (image < 1.05).all()) else None


def _at_most(image: Tensor, most: int) -> Tensor:
    height, width = image.shape[-2:]
    factor = (most / (height * width)) ** 0.5
    if factor >= 1:
        return image
    size = (max(1, int(height * factor)), max(1, int(width * factor)))
    return torch.nn.functional.interpolate(image[None], size=size, mode="area")[0]


_PATCH = re.compile(r"patch (\d+),(\d+)")
_TIME = re.compile(r"(\d+\.\d+) s")


NOT_TEXT = -1
"""The token id of a position that holds no token of a vocabulary."""

MOST_EXTRA = 8
"""Most positions before the patches of a picture: class and register tokens."""


def position_labels(
    config: Any, inputs: Mapping[str, Tensor], count: int, processors: MediaProcessors, *, windowed: bool = False
) -> tuple[Token, ...]:
    """Labels of ``count`` positions, numbers where nothing better is known. ``windowed``: see ``numbered_labels``."""
    labels = None
    if PIXELS in inputs:
        labels = _listed_patches(config, inputs, count) or _patches(config, inputs[PIXELS], count)
    elif FEATURES in inputs or WAVE in inputs:
        labels = _times(config, inputs, count, processors.sound)
    return tuple(Token(NOT_TEXT, label) for label in labels or numbered_labels(count, windowed=windowed))


def patch_names(rows: int, columns: int) -> list[str]:
    """Labels of the patches of a grid, row by row; ``media_positions.patch_grid`` reads them back."""
    return [f"patch {row},{column}" for row in range(rows) for column in range(columns)]


def numbered_labels(count: int, *, windowed: bool = False) -> list[str]:
    """Positions by number; ``windowed`` where the model splits its input into windows, of which this is the first."""
    return [f"window 1 [{position}]" if windowed else f"[{position}]" for position in range(count)]


def grid_labels(grid: tuple[int, int] | None, count: int) -> list[str] | None:
    """Row and column of every patch after class and register tokens; None where the grid does not fit ``count``."""
    if grid is None or not 0 <= (extra := count - grid[0] * grid[1]) <= MOST_EXTRA:
        return None
    return ["CLS", *(f"register {number}" for number in range(MOST_EXTRA))][:extra] + patch_names(*grid)


def _patches(config: Any, pixels: Tensor, count: int) -> list[str] | None:
    """Row and column of every patch, after the class and register tokens of the model family."""
    parts = (getattr(config, name, None) for name in ("vision_config", "backbone_config", "encoder"))
    vision = next((part for part in parts if hasattr(part, "patch_size")), config)
    size = getattr(vision, "patch_size", None)
    pixels = pixels[0] if pixels.ndim == 5 and pixels.shape[1] == 1 else pixels  # one picture of several that may be
    if size is None or pixels.ndim != 4:
        return None
    height, width = (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))
    rows, columns = pixels.shape[2] // height, pixels.shape[3] // width
    before = _labels_before_patches(vision, count - rows * columns)
    if before is None:
        return None
    return before + patch_names(rows, columns)


def _listed_patches(config: Any, inputs: Mapping[str, Tensor], count: int) -> list[str] | None:
    """Row and column of every patch of a list of them, in which squares that become one token stand together."""
    grid = inputs.get(GRID_OF_PATCHES)
    if grid is None or len(grid) != 1 or int(grid[0].prod()) != count or int(grid[0, 0]) != 1:
        return None
    rows, columns = int(grid[0, 1]), int(grid[0, 2])
    merged = int(getattr(getattr(config, "vision_config", None), "spatial_merge_size", 1) or 1)
    return [
        f"patch {row + down},{column + across}"
        for row in range(0, rows, merged)
        for column in range(0, columns, merged)
        for down in range(merged)
        for across in range(merged)
    ]


def _labels_before_patches(vision: Any, extra: int) -> list[str] | None:
    registers = getattr(vision, "num_register_tokens", 0) or 0
    known: dict[int, list[str]] = {0: [], 1: ["CLS"]}
    if registers:
        known = {1 + registers: ["CLS", *(f"register {number}" for number in range(registers))]}
    elif getattr(vision, "model_type", "") == "deit":
        known = {2: ["CLS", "distillation"]}
    return known.get(extra)


def _times(config: Any, inputs: Mapping[str, Tensor], count: int, extractor: Any) -> list[str]:
    """When each position begins, in seconds, where the feature extractor says how long a sample or frame is."""
    rate = getattr(extractor, "sampling_rate", None)
    step = getattr(config, "inputs_to_logits_ratio", None) if WAVE in inputs else None
    if rate is not None and FEATURES in inputs:
        hop = getattr(extractor, "hop_length", None)
        bins: Any = getattr(extractor, "feature_size", None)
        frames = next((size for size in inputs[FEATURES].shape[1:] if size != bins), bins)
        step = None if hop is None else hop * round(frames / count)
    if rate is None or step is None:
        return [f"frame {position}" for position in range(count)]
    return [f"{position * step / rate:.2f} s" for position in range(count)]
