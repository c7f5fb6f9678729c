"""Pictures and sound, made ready for a model by its own processor. What is not text comes in here."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headscope.errors import InputError

PIXELS, FEATURES, WAVE = "pixel_values", "input_features", "input_values"
KEYS = frozenset({PIXELS, FEATURES, WAVE})
AXES = {PIXELS: 4, FEATURES: 3, WAVE: 2}
"""How many axes one input has, its batch included."""

STACKS = {"vision": frozenset({PIXELS}), "audio": frozenset({FEATURES, WAVE})}
"""Which inputs are read by sites whose names begin with this word."""


@dataclass(frozen=True)
class Picture:
    """An image of Pillow's, or an array ``[height, width, channel]`` of bytes."""

    image: Any


@dataclass(frozen=True)
class Sound:
    """Samples between −1 and 1, and how many of them make a second (None: as many as the model expects)."""

    samples: npt.NDArray[np.float32]
    rate: int | None = None


@dataclass(frozen=True)
class Processors:
    """What makes tensors of pictures and of sound for one model; ``both`` where text and picture go in together."""

    image: Any = None
    sound: Any = None
    both: Any = None


def taken_apart(given: Any) -> tuple[Any, Processors]:
    """A tokenizer, an image processor, a feature extractor, or a processor that holds several: which is which."""
    from transformers import FeatureExtractionMixin, ImageProcessingMixin, ProcessorMixin

    if isinstance(given, ProcessorMixin):
        parts = {name: getattr(given, name, None) for name in ("tokenizer", "image_processor", "feature_extractor")}
        return parts["tokenizer"], Processors(parts["image_processor"], parts["feature_extractor"], given)
    if isinstance(given, ImageProcessingMixin):
        return None, Processors(image=given)
    if isinstance(given, FeatureExtractionMixin):
        return None, Processors(sound=given)
    return given, Processors()


def recognised(given: Any) -> tuple[Picture | Sound | None, str | None]:
    """A picture or a sound, and the words that came with it; (None, None) for what is neither."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str) and not isinstance(given[0], str):
        medium, _ = recognised(given[0])
        return (medium, given[1]) if medium is not None else (None, None)
    if isinstance(given, Path):
        return _from_file(given), None
    if type(given).__module__.partition(".")[0] == "PIL":
        return Picture(given), None
    if isinstance(given, Mapping) and "array" in given and "sampling_rate" in given:
        rate = given["sampling_rate"]
        if type(rate) is bool or not isinstance(rate, int | float | np.number) or not rate >= 1:
            raise InputError(f"sampling_rate={rate!r}: give the samples a second, as in 16000")
        return Sound(_samples(given["array"]), int(rate)), None
    if isinstance(given, np.ndarray) and given.ndim == 3 and given.dtype == np.uint8:
        return Picture(given), None
    if isinstance(given, np.ndarray | Tensor) and given.ndim == 1 and _is_floating(given):
        return Sound(_samples(given)), None
    return None, None


def tensors_of(
    medium: Picture | Sound, words: str | None, processors: Processors, takes: frozenset[str], name: str
) -> dict[str, Tensor]:
    """The tensors that this model reads for a picture or a sound, or a refusal that says what it reads instead."""
    if isinstance(medium, Picture):
        _needs(takes, (PIXELS,), "picture", name)
        made = _of_picture(medium, words if "input_ids" in takes else None, processors)
    else:
        _needs(takes, (FEATURES, WAVE), "sound", name)
        made = _of_sound(medium, words if "input_ids" in takes else None, processors, takes)
    return {key: value for key, value in made.items() if key in takes and isinstance(value, Tensor)}


def of_stack(stack: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The pictures and sounds among these that a stack of sites reads."""
    return {key: value for key, value in tensors.items() if key in STACKS.get(stack, KEYS)}


def _needs(takes: frozenset[str], names: tuple[str, ...], what: str, model: str) -> None:
    if not takes & set(names):
        raise InputError(f"{model} takes no {what}; it reads {' and '.join(reads(takes)) or 'tensors by name'}")


def _of_picture(medium: Picture, words: str | None, processors: Processors) -> Mapping[str, Any]:
    if processors.image is None:
        raise InputError(
            "no image processor was given, so a picture cannot be made ready for this model; pass processor=, or give "
            "its pixel_values as a tensor [channel, height, width]"
        )
    image = medium.image.convert("RGB") if hasattr(medium.image, "convert") else medium.image
    if words is None:
        return dict(processors.image(images=image, return_tensors="pt"))
    return dict(_both(processors)(images=image, text=words, return_tensors="pt"))


def _of_sound(medium: Sound, words: str | None, processors: Processors, takes: frozenset[str]) -> Mapping[str, Any]:
    if processors.sound is None:
        if WAVE in takes:
            return {WAVE: torch.from_numpy(medium.samples)[None]}
        raise InputError(
            "no feature extractor was given, so samples cannot be made ready for this model; pass processor=, or give "
            "its input_features as a tensor [bin, frame]"
        )
    expected = int(processors.sound.sampling_rate)
    if medium.rate not in (None, expected):
        raise InputError(
            f"this sound has {medium.rate} samples a second and the model reads {expected}; resample it first"
        )
    if words is None:
        return dict(processors.sound(medium.samples, sampling_rate=expected, return_tensors="pt"))
    return dict(_both(processors)(audio=medium.samples, text=words, sampling_rate=expected, return_tensors="pt"))


def _both(processors: Processors) -> Any:
    if processors.both is None:
        raise InputError("a picture or sound with a text needs a processor that reads both; pass it as processor=")
    return processors.both


def _from_file(path: Path) -> Picture | Sound:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if path.suffix.lower() == ".wav":
        return _from_wav(path)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise InputError("reading pictures from files needs Pillow; pip install pillow") from error
    try:
        with Image.open(path) as opened:
            return Picture(opened.convert("RGB"))
    except UnidentifiedImageError as error:
        raise InputError(f"{path} is neither a picture that Pillow reads nor a .wav file") from error
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # a broken PNG is a SyntaxError there
        raise InputError(f"{path} is a picture that cannot be read to its end: {error}; fetch it again") from error


def _from_wav(path: Path) -> Sound:
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise InputError(f"{path} is not a .wav file that can be read: {error}") from error
    if width != 2:
        raise InputError(f"{path} has {8 * width} bits a sample; .wav files of 16 bits are read")
    whole = len(raw) // (width * channels) * channels  # a file that was cut off may end within a frame
    if not whole:
        raise InputError(f"{path} holds no samples; there is nothing to hear")
    samples = np.frombuffer(raw, dtype="<i2", count=whole).astype(np.float32) / 32768
    return Sound(samples.reshape(-1, channels).mean(axis=1), rate)


def _samples(given: Any) -> npt.NDArray[np.float32]:
    try:
        samples = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"a sound is one row of samples, and these are no numbers: {error}") from error
    if samples.ndim != 1 or not samples.size:
        raise InputError(f"a sound is one row of samples, and this has the shape {samples.shape}; give one channel")
    return samples


def _is_floating(given: Any) -> bool:
    return given.is_floating_point() if isinstance(given, Tensor) else bool(np.issubdtype(given.dtype, np.floating))


_KINDS = {"input_ids": "text", PIXELS: "pictures", FEATURES: "sound", WAVE: "sound"}


def reads(takes: frozenset[str]) -> list[str]:
    """In words, what a model with these arguments reads."""
    return list(dict.fromkeys(kind for key, kind in _KINDS.items() if key in takes))
