"""Turn pictures and sound into model inputs with the model's own processor."""

from __future__ import annotations

import io
import math
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
"""Number of axes of each input, the batch axis included."""

HIGHEST_RATE = 768_000
"""Most samples per second. The filter that resamples a sound is twenty times as long as the larger of two rates."""
MOST_CHANNELS = 8
"""Most channels of a sound, which are mixed into one."""

GRID_OF_PATCHES = "image_grid_thw"
"""Frames, rows and columns of a picture that is given as a list of patches, as to Qwen2-VL."""

STACKS = {"vision": frozenset({PIXELS, GRID_OF_PATCHES}), "audio": frozenset({FEATURES, WAVE})}
"""The inputs that are read by sites whose names begin with this word."""


@dataclass(frozen=True)
class Picture:
    """A Pillow image, or an array ``[height, width, channel]`` of bytes."""

    image: Any


@dataclass(frozen=True)
class Sound:
    """Samples between −1 and 1, and the sampling rate in Hz (None: the one that the model expects)."""

    samples: npt.NDArray[np.float32]
    rate: int | None = None


@dataclass(frozen=True)
class MediaProcessors:
    """A model's image processor, its feature extractor for sound, and the processor that combines either with text."""

    image: Any = None
    sound: Any = None
    both: Any = None


def split_processor(given: Any) -> tuple[Any, MediaProcessors]:
    """Split a tokenizer, an image processor, a feature extractor, or a processor that holds several, into its parts."""
    from transformers import FeatureExtractionMixin, ImageProcessingMixin, ProcessorMixin

    if isinstance(given, ProcessorMixin):
        parts = {name: getattr(given, name, None) for name in ("tokenizer", "image_processor", "feature_extractor")}
        return parts["tokenizer"], MediaProcessors(parts["image_processor"], parts["feature_extractor"], given)
    if isinstance(given, ImageProcessingMixin):
        return None, MediaProcessors(image=given)
    if isinstance(given, FeatureExtractionMixin):
        return None, MediaProcessors(sound=given)
    return given, MediaProcessors()


def recognise(given: Any) -> tuple[Picture | Sound | None, str | None]:
    """The picture or sound that was given, and the text given with it; (None, None) for anything else."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str) and not isinstance(given[0], str):
        medium, _ = recognise(given[0])
        return (medium, given[1]) if medium is not None else (None, None)
    if isinstance(given, Path):
        return _read_file(given), None
    if type(given).__module__.partition(".")[0] == "PIL":
        return Picture(given), None
    if isinstance(given, Mapping) and "array" in given and "sampling_rate" in given:
        rate = given["sampling_rate"]
        if type(rate) is bool or not isinstance(rate, int | float | np.number) or not rate >= 1:
            raise InputError(f"sampling_rate={rate!r}: give samples per second, as in 16000")
        return Sound(_samples(given["array"]), int(rate)), None
    if isinstance(given, np.ndarray) and given.ndim == 3 and given.dtype == np.uint8:
        return Picture(given), None
    if isinstance(given, np.ndarray | Tensor) and given.ndim == 1 and _is_floating(given):
        return Sound(_samples(given)), None
    return None, None


def media_tensors(
    medium: Picture | Sound, text: str | None, processors: MediaProcessors, takes: frozenset[str], name: str
) -> dict[str, Tensor]:
    """Return the tensors that this model takes for a picture or sound; reject what it does not take."""
    picture = isinstance(medium, Picture)
    if not takes & ({PIXELS} if picture else {FEATURES, WAVE}):
        reads = " and ".join(input_kinds(takes)) or "tensors by name"
        raise InputError(f"{name} takes no {'picture' if picture else 'sound'}; it reads {reads}")
    if "input_ids" not in takes:
        text = None
    elif picture:
        text = _with_image_token(text, processors)
    made = (
        _picture_tensors(medium, text, processors)
        if isinstance(medium, Picture)
        else _sound_tensors(medium, text, processors, takes)
    )
    return {key: value for key, value in made.items() if key in takes and isinstance(value, Tensor)}


def inputs_of_stack(stack: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The pictures and sounds that a stack of sites reads."""
    return {key: value for key, value in tensors.items() if key in STACKS.get(stack, KEYS)}


def _picture_tensors(medium: Picture, text: str | None, processors: MediaProcessors) -> Mapping[str, Any]:
    if processors.image is None:
        raise InputError(
            "no image processor was given, so a picture cannot be turned into tensors; pass processor=, or give "
            "its pixel_values as a tensor [channel, height, width]"
        )
    image = medium.image.convert("RGB") if hasattr(medium.image, "convert") else medium.image
    if text is None:
        return dict(processors.image(images=image, return_tensors="pt"))
    return dict(_combined_processor(processors)(images=image, text=text, return_tensors="pt"))


def _with_image_token(text: str | None, processors: MediaProcessors) -> str | None:
    """The text with a place for the picture, where the processor wants one and the text has none."""
    token = getattr(processors.both, "boi_token", None) or getattr(processors.both, "image_token", None)
    if not isinstance(token, str) or (text is not None and token in text):
        return text
    known: Mapping[str, int] = getattr(getattr(processors.both, "tokenizer", None), "get_vocab", dict)()
    begin, end = AROUND_PICTURES.get(token, ("", ""))
    if begin in known and end in known:  # and no line break: its chat template has none either
        return f"{begin}{token}{end}{text or ''}"
    return token if text is None else f"{token}\n{text}"


AROUND_PICTURES = {
    "<|image_pad|>": ("<|vision_start|>", "<|vision_end|>"),
    "<|image|>": ("<|begin_of_image|>", "<|end_of_image|>"),
}
"""What chat templates write before and after an image token (Qwen2-VL and its kin; GLM-4V)."""


def _sound_tensors(
    medium: Sound, text: str | None, processors: MediaProcessors, takes: frozenset[str]
) -> Mapping[str, Any]:
    if processors.sound is None:
        if WAVE in takes:
            return {WAVE: torch.from_numpy(medium.samples)[None]}
        raise InputError(
            "no feature extractor was given, so samples cannot be turned into tensors; pass processor=, or give "
            "its input_features as a tensor [bin, frame]"
        )
    expected = int(processors.sound.sampling_rate)
    medium = resampled(medium, expected)
    if text is None:
        return dict(processors.sound(medium.samples, sampling_rate=expected, return_tensors="pt"))
    both = _combined_processor(processors)
    return dict(both(audio=medium.samples, text=text, sampling_rate=expected, return_tensors="pt"))


def resampled(sound: Sound, rate: int) -> Sound:
    """The sound at another sampling rate, by scipy where it is installed."""
    if sound.rate is None or sound.rate == rate:
        return sound
    if not 1 <= sound.rate <= HIGHEST_RATE:
        raise InputError(f"a sound of {sound.rate} samples per second; recordings have 1 to {HIGHEST_RATE:,}")
    try:
        from scipy.signal import resample_poly
    except ImportError as error:
        raise InputError(
            f"this sound has {sound.rate} samples per second and the model reads {rate}; resample it first, or pip "
            "install scipy"
        ) from error
    common = math.gcd(int(sound.rate), rate)
    made = resample_poly(sound.samples, rate // common, int(sound.rate) // common)
    return Sound(np.asarray(made, dtype=np.float32), rate)


def _combined_processor(processors: MediaProcessors) -> Any:
    if processors.both is None:
        raise InputError("a picture or sound with a text needs a processor that takes both; pass it as processor=")
    return processors.both


def _samples(given: Any) -> npt.NDArray[np.float32]:
    try:
        samples = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"a sound is one row of samples, and these are not numbers: {error}") from error
    if samples.ndim == 2 and samples.size and min(samples.shape) <= MOST_CHANNELS:
        samples = samples.mean(axis=int(np.argmin(samples.shape)), dtype=np.float32)
    if samples.ndim != 1 or not samples.size:
        raise InputError(f"a sound is one row of samples, and this has the shape {samples.shape}; give one channel")
    return samples


def _is_floating(given: Any) -> bool:
    return given.is_floating_point() if isinstance(given, Tensor) else bool(np.issubdtype(given.dtype, np.floating))


_KINDS = {"input_ids": "text", PIXELS: "pictures", FEATURES: "sound", WAVE: "sound"}


def input_kinds(takes: frozenset[str]) -> list[str]:
    """The kinds of input that a model with these arguments reads: text, pictures, sound."""
    return list(dict.fromkeys(kind for key, kind in _KINDS.items() if key in takes))


UPLOAD_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""The decoders of Pillow that bytes from a browser may reach."""


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """Limits on what is decoded of an upload: bytes, pixels of a picture, seconds of a sound."""

    n_bytes: int = 6_000_000
    pixels: int = 24_000_000
    longer: int = 50
    """How many times as long as the other a side may be: many models' processors make the shorter side 224 pixels."""
    seconds: float = 60.0


def _read_file(path: Path) -> Picture | Sound:
    """A picture that Pillow reads, or a .wav file."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    decode = _wav if path.suffix.lower() == ".wav" else _picture
    return decode(path.read_bytes(), str(path), None)


def read_bytes(data: bytes, limits: MediaLimits | None = None) -> Picture | Sound:
    """Read a picture or sound from its bytes; reject one that is too large before it is decoded."""
    limits = limits or MediaLimits()
    if not data:
        raise InputError("the file is empty; choose a picture or a .wav file")
    if len(data) > limits.n_bytes:
        raise InputError(
            f"the file has {len(data) / 1e6:.1f} MB, and at most {limits.n_bytes / 1e6:g} are read; shrink it first"
        )
    if data[:4] in (b"RIFF", b"RIFX") and data[8:12] == b"WAVE":
        return _wav(data, "the file", limits)
    return _picture(data, "the file", limits)


def _picture(data: bytes, name: str, limits: MediaLimits | None) -> Picture:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise InputError("reading pictures from files needs Pillow; pip install pillow") from error
    try:
        with Image.open(io.BytesIO(data), formats=None if limits is None else UPLOAD_FORMATS) as opened:
            n_pixels = opened.width * opened.height
            if limits is not None and n_pixels > limits.pixels:
                raise InputError(
                    f"the picture has {opened.width}×{opened.height} pixels, and at most {limits.pixels / 1e6:g} "
                    "million are read; shrink it first"
                )
            sides = sorted((opened.width, opened.height))
            if limits is not None and sides[1] > limits.longer * sides[0]:
                raise InputError(
                    f"the picture has {opened.width}×{opened.height} pixels, and one side may be at most "
                    f"{limits.longer} times the other; cut it first"
                )
            turned: Any = ImageOps.exif_transpose(opened)
            return Picture(turned.convert("RGB"))
    except UnidentifiedImageError as error:
        raise InputError(f"{name} is neither a picture that Pillow reads nor a .wav file") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # a broken PNG is a SyntaxError there, a broken EXIF block a ValueError
        raise InputError(f"{name} is a picture that cannot be read to its end: {error}; fetch it again") from error


def _wav(data: bytes, name: str, limits: MediaLimits | None) -> Sound:
    try:
        with wave.open(io.BytesIO(data), "rb") as opened:
            width, channels, rate = opened.getsampwidth(), opened.getnchannels(), opened.getframerate()
            if limits is not None and rate >= 1 and opened.getnframes() > limits.seconds * rate:
                raise InputError(
                    f"the sound is {opened.getnframes() / rate:.0f} seconds long, and at most {limits.seconds:g} are "
                    "read; cut it first"
                )
            raw = opened.readframes(opened.getnframes())
    except (wave.Error, EOFError) as error:
        raise InputError(f"{name} is not a .wav file that can be read: {error}") from error
    if width not in _FULL_SCALE or not 1 <= rate <= HIGHEST_RATE:
        raise InputError(f"{name} has {8 * width} bits per sample at {rate} Hz; give a .wav file with 16 bits")
    whole = len(raw) // (width * channels) * channels  # a truncated file may end within a frame
    if not whole:
        raise InputError(f"{name} holds no samples; give a longer recording")
    samples = _integers(raw[: whole * width], width).astype(np.float32) / _FULL_SCALE[width]
    return Sound(samples.reshape(-1, channels).mean(axis=1), rate)


_FULL_SCALE = {1: 2.0**7, 2: 2.0**15, 3: 2.0**31, 4: 2.0**31}
"""What one stands for, by the bytes of a sample; three bytes are read as the upper three of four."""


def _integers(raw: bytes, width: int) -> npt.NDArray[np.integer[Any]]:
    if width == 1:  # the only unsigned one
        return np.frombuffer(raw, dtype=np.uint8).astype(np.int16) - 128
    if width == 3:
        four = np.zeros((len(raw) // 3, 4), dtype=np.uint8)
        four[:, 1:] = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 3)
        return four.reshape(-1).view("<i4")
    return np.frombuffer(raw, dtype="<i2" if width == 2 else "<i4")
