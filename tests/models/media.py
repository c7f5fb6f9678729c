"""Pictures and sounds for tests, as arrays and as files, and small models that read them."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from tests.models import tiny
from transformers import (
    CLIPImageProcessorPil,
    CLIPProcessor,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    ViTImageProcessorPil,
    WhisperFeatureExtractor,
)

import headscope
from headscope.models.inputs.media import FEATURES, PIXELS
from headscope.scope import Scope

RATE = 16_000


def picture(width: int = 50, height: int = 40) -> Image.Image:
    generator = np.random.default_rng(0)
    return Image.fromarray(generator.integers(0, 255, (height, width, 3), dtype=np.uint8))


def hum(seconds: float = 1.0) -> npt.NDArray[np.float32]:
    time = np.arange(int(RATE * seconds)) / RATE
    return (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def as_sixteen_bits(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Samples as they are read back from a file that ``wav`` wrote."""
    return (samples * 32767).astype("<i2").astype(np.float32) / 32768


def png() -> bytes:
    made = io.BytesIO()
    picture().save(made, "PNG")
    return made.getvalue()


def wav(seconds: float = 0.7) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((hum(seconds) * 32767).astype("<i2").tobytes())
    return made.getvalue()


def png_base64() -> str:
    return base64.b64encode(png()).decode()


def wav_base64(seconds: float = 0.7) -> str:
    return base64.b64encode(wav(seconds)).decode()


class TextsKept:
    """The part of transformers' processors that is called, which keeps the texts that it was given."""

    sampling_rate = 8000

    def __init__(self, words: tuple[str, ...] = (), **attributes: Any) -> None:
        self.given: list[Any] = []
        self.tokenizer = SimpleNamespace(get_vocab=lambda: dict.fromkeys(words, 0))
        for name, value in attributes.items():
            setattr(self, name, value)

    def __call__(self, *samples: Any, text: str | None = None, **more: Any) -> dict[str, Any]:
        self.given.append(text)
        sound = bool(samples) or "audio" in more
        made: dict[str, Any] = {FEATURES: torch.ones(1, 8, 6)} if sound else {PIXELS: torch.ones(1, 3, 4, 4)}
        if text is not None:
            made["input_ids"] = torch.ones(1, 2, dtype=torch.long)
        return made | {"image_sizes": [[4, 4]], "attention_mask": torch.ones(1, 2)}


def of_size(edge: int) -> ViTImageProcessorPil:
    return ViTImageProcessorPil(size={"height": edge, "width": edge})


def clip_images(edge: int) -> CLIPImageProcessorPil:
    return CLIPImageProcessorPil(size={"shortest_edge": edge}, crop_size={"height": edge, "width": edge})


def clip_processor(tokenizer: PreTrainedTokenizerFast) -> CLIPProcessor:
    return CLIPProcessor(clip_images(16), tokenizer)


def llava_processor() -> LlavaProcessor:
    """A picture of 4 × 4 patches within a text."""
    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    return LlavaProcessor(
        clip_images(32), tokenizer, patch_size=8, vision_feature_select_strategy="default", image_token="<image>",
        num_additional_image_tokens=1,
    )  # fmt: skip


def extractor() -> WhisperFeatureExtractor:
    """Features of one second of sound, for ``tiny.whisper``."""
    return WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)


def opened(model: Any, tokenizer: Any, **more: Any) -> Iterator[Scope]:
    with headscope.load(model, tokenizer, **more) as scope:
        yield scope


@pytest.fixture(scope="session")
def vit() -> Iterator[Scope]:
    yield from opened(tiny.vit(), of_size(32))


@pytest.fixture(scope="session")
def classifier() -> Iterator[Scope]:
    yield from opened(tiny.vit_classifier(), of_size(32))


@pytest.fixture(scope="session")
def clip() -> Iterator[Scope]:
    yield from opened(tiny.clip(), clip_processor(tiny.tokenizer()))


@pytest.fixture(scope="session")
def llava() -> Iterator[Scope]:
    yield from opened(tiny.llava(), llava_processor())


@pytest.fixture(scope="session")
def whisper() -> Iterator[Scope]:
    yield from opened(tiny.whisper(), tiny.tokenizer(), processor=extractor())


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture, a sound, and a file that is neither."""
    folder = tmp_path_factory.mktemp("media")
    (folder / "scene.png").write_bytes(png())
    (folder / "hum.wav").write_bytes(wav())
    (folder / "letters.png").write_text("no picture")
    return folder
