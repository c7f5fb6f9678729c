"""Small models of pictures and sound, and files for them."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator

import pytest
from tests.models import tiny
from tests.models.inputs.test_media import clip_processor, hum, of_size, picture
from transformers import WhisperFeatureExtractor

import headscope
from headscope.scope import Scope

RATE = 16_000


def png_base64() -> str:
    made = io.BytesIO()
    picture().save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()


def wav_base64(seconds: float = 0.7) -> str:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((hum(seconds) * 32767).astype("<i2").tobytes())
    return base64.b64encode(made.getvalue()).decode()


@pytest.fixture(scope="session")
def vit() -> Iterator[Scope]:
    with headscope.load(tiny.vit(), of_size(32)) as scope:
        yield scope


@pytest.fixture(scope="session")
def clip() -> Iterator[Scope]:
    with headscope.load(tiny.clip(), clip_processor(tiny.tokenizer())) as scope:
        yield scope


@pytest.fixture(scope="session")
def whisper() -> Iterator[Scope]:
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    with headscope.load(tiny.whisper(), tiny.tokenizer(), processor=extractor) as scope:
        yield scope
