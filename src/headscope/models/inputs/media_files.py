"""Decode pictures and .wav files, from a file or from bytes that somebody sent, within limits of size."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headscope.errors import InputError
from headscope.models.inputs.media import HIGHEST_RATE, Picture, Sound

UPLOAD_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""The decoders of Pillow that bytes from a browser may reach."""


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """How much is decoded of what somebody sends: bytes, pixels of a picture, seconds of a sound."""

    n_bytes: int = 6_000_000
    pixels: int = 24_000_000
    longer: int = 50
    """How many times as long as the other a side may be: many models' processors make the shorter side 224 pixels."""
    seconds: float = 60.0


def read_file(path: Path) -> Picture | Sound:
    """A picture that Pillow reads, or a .wav file."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    decode = _wav if path.suffix.lower() == ".wav" else _picture
    return decode(path.read_bytes(), str(path), None)


def read_bytes(data: bytes, limits: MediaLimits | None = None) -> Picture | Sound:
    """A picture or sound from its bytes; what is too large is refused before it is decoded."""
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
