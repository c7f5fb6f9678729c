"""Names for the places of a picture or a sound, so that a page can show where a head looks: patches and moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headscope.models.inputs.media import FEATURES, PIXELS, WAVE, Processors
from headscope.models.protocol import Token

NOT_TEXT = -1
"""The id of a place that is no token of a vocabulary."""


def places(
    config: Any, inputs: Mapping[str, Tensor], count: int, processors: Processors, *, cut: bool = False
) -> tuple[Token, ...]:
    """What each of ``count`` places stands for; plain numbers where that is not known. ``cut``: see ``numbers``."""
    names = None
    if PIXELS in inputs:
        names = _patches(config, inputs[PIXELS], count)
    elif FEATURES in inputs or WAVE in inputs:
        names = _moments(config, inputs, count, processors.sound)
    return tuple(Token(NOT_TEXT, name) for name in names or numbers(count, cut=cut))


def numbers(count: int, *, cut: bool = False) -> list[str]:
    """Places by number; those of an input cut into pieces that attend each on its own say that this is the first."""
    return [f"piece 1 [{place}]" if cut else f"[{place}]" for place in range(count)]


def _patches(config: Any, pixels: Tensor, count: int) -> list[str] | None:
    """Row and column of every patch, after the tokens that a family puts before them."""
    parts = (getattr(config, name, None) for name in ("vision_config", "backbone_config", "encoder"))
    vision = next((part for part in parts if hasattr(part, "patch_size")), config)
    size = getattr(vision, "patch_size", None)
    if size is None or pixels.ndim != 4:
        return None
    height, width = (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))
    rows, columns = pixels.shape[2] // height, pixels.shape[3] // width
    before = _before_patches(vision, count - rows * columns)
    if before is None:
        return None
    return before + [f"patch {row},{column}" for row in range(rows) for column in range(columns)]


def _before_patches(vision: Any, extra: int) -> list[str] | None:
    registers = getattr(vision, "num_register_tokens", 0) or 0
    known: dict[int, list[str]] = {0: [], 1: ["CLS"]}
    if registers:
        known = {1 + registers: ["CLS", *(f"register {number}" for number in range(registers))]}
    elif getattr(vision, "model_type", "") == "deit":
        known = {2: ["CLS", "distillation"]}
    return known.get(extra)


def _moments(config: Any, inputs: Mapping[str, Tensor], count: int, extractor: Any) -> list[str]:
    """When each place begins, in seconds, where the extractor says how long a sample or frame is."""
    rate = getattr(extractor, "sampling_rate", None)
    step = getattr(config, "inputs_to_logits_ratio", None) if WAVE in inputs else None
    if rate is not None and FEATURES in inputs:
        hop = getattr(extractor, "hop_length", None)
        bins = getattr(extractor, "feature_size", None)
        frames = next((size for size in inputs[FEATURES].shape[1:] if size != bins), inputs[FEATURES].shape[-1])
        step = None if hop is None else hop * round(frames / count)
    if rate is None or step is None:
        return [f"frame {place}" for place in range(count)]
    return [f"{place * step / rate:.2f} s" for place in range(count)]
