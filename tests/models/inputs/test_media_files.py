"""Pictures and sound are decoded from bytes within limits, and what is too large is refused before it is decoded."""

from __future__ import annotations

import io
import struct
import sys
import wave
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headscope.errors import InputError
from headscope.models.inputs.media import HIGHEST_RATE, Picture, Sound
from headscope.models.inputs.media_files import MediaLimits, read_bytes, read_file


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
def test_what_cannot_be_read_is_refused_in_a_sentence(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_bytes(data)


def test_bytes_reach_few_of_pillows_decoders() -> None:
    made = io.BytesIO()
    Image.new("RGB", (4, 4)).save(made, "TIFF")
    with pytest.raises(InputError, match="neither a picture"):
        read_bytes(made.getvalue())


def test_the_limits_can_be_set() -> None:
    with pytest.raises(InputError, match="has 6×4 pixels, and at most 1e-05 million"):
        read_bytes(png(), MediaLimits(pixels=10))


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


@pytest.mark.parametrize(("fewer", "refused"), [(0, False), (1, True)])
def test_files_are_read_up_to_exactly_their_limit(fewer: int, refused: bool) -> None:
    with pytest.raises(InputError, match="at most") if refused else nullcontext():
        read_bytes(png(), MediaLimits(n_bytes=len(png()) - fewer))


@pytest.mark.parametrize(
    ("frames", "rate", "message"),
    [
        (1, 1, ""), (60, 1, ""), (61, 1, "is 61 seconds long, and at most 60"), (120, 2, ""),
        (121, 2, "is 60 seconds long"), (1, HIGHEST_RATE, ""),
        (1, HIGHEST_RATE + 1, "16 bits per sample at 768001 Hz; give a .wav file with 16 bits"),
    ],
)  # fmt: skip
def test_sounds_are_read_up_to_exactly_their_limits(frames: int, rate: int, message: str) -> None:
    with pytest.raises(InputError, match=message) if message else nullcontext():
        assert read_bytes(wav([0] * frames, rate=rate)) is not None


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


def test_samples_of_three_bytes_keep_all_of_them() -> None:
    values = [2**22 + 12_345, -1, -(2**23)]
    found = read_bytes(wav(values, 3))
    assert isinstance(found, Sound)
    np.testing.assert_allclose(found.samples, np.array(values) / 2**23, rtol=1e-7)


@pytest.mark.parametrize(("cut", "expected"), [(0, [0.5, 0.125, 0.25]), (1, [0.5, 0.125]), (4, [0.5, 0.125])])
def test_channels_are_averaged_up_to_the_last_whole_frame(cut: int, expected: list[float]) -> None:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.array([2**15 - 2**14, 2**14, 2**13, 0, 0, 2**14], dtype="<i2").tobytes())
    data = made.getvalue()
    found = read_bytes(data[: len(data) - cut])
    assert isinstance(found, Sound)
    assert found.samples.tolist() == expected


def test_sounds_are_recognised_by_both_of_their_words() -> None:
    """A WebP picture begins as a .wav file does."""
    made = io.BytesIO()
    Image.new("RGB", (4, 4)).save(made, "WEBP")
    assert made.getvalue()[:4] == b"RIFF"
    assert isinstance(read_bytes(made.getvalue()), Picture)
    with pytest.raises(InputError, match="neither a picture"):
        read_bytes(b"DATA" + wav([0, 0])[4:])


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    for name, data in (("hum.WAV", wav([2**14])), ("scene.png", png()), ("strip.png", png(306, 4))):
        (tmp_path / name).write_bytes(data)
    assert isinstance(read_file(tmp_path / "hum.WAV"), Sound)
    assert isinstance(read_file(tmp_path / "scene.png"), Picture)
    assert isinstance(read_file(tmp_path / "strip.png"), Picture), "a file of one's own has no limits"
    for missing in (tmp_path / "none.png", tmp_path):
        with pytest.raises(InputError, match=f"there is no file {missing}"):
            read_file(missing)


def test_without_pillow_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match="needs Pillow; pip install pillow"):
        read_bytes(png_that_says(4, 4))
