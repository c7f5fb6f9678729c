"""Label the positions of a picture or sound: image patches by row and column, audio frames in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headscope.models.inputs.media import FEATURES, GRID_OF_PATCHES, PIXELS, WAVE, MediaProcessors
from headscope.models.protocol import Token

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
