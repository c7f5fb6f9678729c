"""Pictures and sound are decoded from bytes within limits, and what is too large is refused before it is decoded."""

from __future__ import annotations

import io
import struct
import wave
import zlib

import numpy as np
import pytest
from PIL import Image

from headscope.errors import InputError
from headscope.models.inputs.media import Picture, Sound, read_bytes


def png(width: int = 6, height: int = 4) -> bytes:
    made = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(made, "PNG")
    return made.getvalue()


def wav(values: list[int], width: int = 2, rate: int = 8000) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(b"".join(value.to_bytes(width, "little", signed=width > 1) for value in values))
    return made.getvalue()


def png_that_says(width: int, height: int) -> bytes:
    """A PNG of few bytes whose header names this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_picture_keeps_its_pixels() -> None:
    found = read_bytes(png())
    assert isinstance(found, Picture)
    np.testing.assert_array_equal(np.asarray(found.image), np.asarray(Image.open(io.BytesIO(png()))))


def test_a_photo_is_turned_as_its_camera_says() -> None:
    made = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    Image.new("RGB", (30, 10)).save(made, "JPEG", exif=exif)
    found = read_bytes(made.getvalue())
    assert isinstance(found, Picture)
    assert found.image.size == (10, 30)


@pytest.mark.parametrize(("width", "half"), [(1, 192), (2, 2**14), (3, 2**22), (4, 2**30)])
def test_samples_of_every_width_are_between_minus_one_and_one(width: int, half: int) -> None:
    found = read_bytes(wav([half, 128 if width == 1 else 0], width))
    assert isinstance(found, Sound)
    assert found.samples.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty; choose a picture or a .wav file"),
        (b"a letter", "the file is neither a picture that Pillow reads nor a .wav file"),
        (png()[:60], "is a picture that cannot be read to its end: .*; fetch it again"),
        (png_that_says(60_000, 60_000), "(60000×60000 pixels, and at most 24 million|cannot be read to its end)"),
        (png_that_says(5_000, 5_000), "has 5000×5000 pixels, and at most 24 million are read; shrink it first"),
        (wav([0] * 8000 * 61), "is 61 seconds long, and at most 60 are read; cut it first"),
        (wav([]), "holds no samples; give a longer recording"),
        (wav([0, 0])[:20], "is not a .wav file that can be read"),
        (b"RIFF\x00\x00\x00\x00WAVE", "is not a .wav file that can be read"),
        (bytes(6_000_001), r"the file has 6.0 MB, and at most 6 are read; shrink it first"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_a_clear_message(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_bytes(data)


def test_bytes_reach_few_of_pillows_decoders() -> None:
    made = io.BytesIO()
    Image.new("RGB", (4, 4)).save(made, "TIFF")
    with pytest.raises(InputError, match="neither a picture"):
        read_bytes(made.getvalue())


@pytest.mark.parametrize(
    ("width", "height", "message"),
    [
        (6000, 4000, "cannot be read to its end"),
        (24_000_001, 1, "has 24000001×1 pixels, and at most 24 million are read"),
        (100, 2, "cannot be read to its end"),
        (2, 100, "cannot be read to its end"),
        (101, 2, "has 101×2 pixels, and one side may be at most 50 times the other; cut it first"),
        (2, 101, "has 2×101 pixels, and one side may be at most 50 times the other"),
    ],
)
def test_pictures_are_decoded_up_to_exactly_their_limits(width: int, height: int, message: str) -> None:
    """A header alone: what is within the limits is decoded, and has no end."""
    with pytest.raises(InputError, match=message):
        read_bytes(png_that_says(width, height))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (24, struct.pack("<I", 0), "has 16 bits per sample at 0 Hz"),
        (34, struct.pack("<H", 40), "has 40 bits per sample at 8000 Hz"),
    ],
    ids=["no rate", "five bytes"],
)
def test_sounds_that_cannot_be_played_are_refused(at: int, value: bytes, message: str) -> None:
    data = wav([0] * 10)
    with pytest.raises(InputError, match=message):
        read_bytes(data[:at] + value + data[at + len(value) :])
