"""Pictures and sound go through the model's own processor, and their positions are labelled; others are refused."""

from __future__ import annotations

import importlib.util
import json
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models import tiny
from tests.models.media import RATE, clip_processor, hum, of_size, picture
from transformers import (
    WhisperFeatureExtractor,
)
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.errors import InputError
from headscope.models.inputs.media import (
    Sound,
    recognise,
    resampled,
)


def test_the_positions_of_a_picture_are_its_patches() -> None:
    with headscope.load(tiny.vit(), of_size(32)) as scope:
        look = scope.look(picture())
        assert [token.text for token in look.tokens[:3]] == ["CLS", "patch 0,0", "patch 0,1"]
        assert look.tokens[-1].text == "patch 3,3"
        assert look.pattern("1.2").shape == (17, 17)
        assert set(look.statistics("0").mass) == {"previous", "itself", "first"}
        assert look.contributions("CLS").sites["1"].error < 1e-4
        with pytest.raises(InputError, match="predicts no tokens"):
            look.predictions()


def test_a_picture_goes_through_its_processor() -> None:
    processor = of_size(32)
    with headscope.load(tiny.vit(), processor=processor) as scope:
        tensors = processor(picture(), return_tensors="pt")["pixel_values"]
        torch.testing.assert_close(scope.look(picture()).logits, scope.look(tensors).logits)
        torch.testing.assert_close(scope.look(np.asarray(picture())).logits, scope.look(tensors).logits)


def test_registers_are_labelled() -> None:
    model = tiny.build(
        "Dinov2WithRegistersConfig", "Dinov2WithRegistersModel", **{**tiny.NO_WORDS, "mlp_ratio": 2}, image_size=16,
        patch_size=8, num_register_tokens=2,
    )  # fmt: skip
    with headscope.load(model, of_size(16)) as scope:
        names = [token.text for token in scope.look(picture()).tokens]
    assert names == ["CLS", "register 0", "register 1", "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1"]


@pytest.fixture(scope="module")
def clip() -> Any:
    return tiny.clip()


def test_two_towers_each_have_separate_positions(clip: Any) -> None:
    with headscope.load(clip, clip_processor(tiny.tokenizer())) as scope:
        look = scope.look((picture(), "the horse crossed the road"))
        assert [token.text for token in look.query_tokens("text.0")][:2] == ["the", "horse"]
        assert [token.text for token in look.key_tokens("vision.1")][:2] == ["CLS", "patch 0,0"]
        assert look.pattern("vision.1.3").shape == (5, 5)
        assert look.pattern("text.1.3").shape == (5, 5)
        with pytest.raises(InputError, match=r"it may need a text with the picture: look\(\(picture, text\)\)"):
            scope.look(picture())


def test_the_positions_of_a_sound_are_times_and_those_of_the_decoder_tokens() -> None:
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    with headscope.load(tiny.whisper(), tiny.tokenizer(), processor=extractor) as scope:
        look = scope.look((hum(), "the horse"))
        assert [token.text for token in look.query_tokens("encoder.0")][:3] == ["0.00 s", "0.02 s", "0.04 s"]
        assert [token.text for token in look.written] == ["[start]", "the", "horse"]
        assert look.pattern("decoder.1.cross.2").shape == (3, 50)
        assert len(look.key_tokens("decoder.1.cross")) == 50
        assert [token.text for token in look.key_tokens("decoder.1")] == ["[start]", "the", "horse"]
        assert len(look.predictions()) == 10
        assert look.contributions(1).sites["decoder.0.cross"].error < 1e-4
        assert len(scope.look(hum()).written) == 1
        with_rate = scope.look({"array": hum(), "sampling_rate": RATE})
        torch.testing.assert_close(with_rate.logits, scope.look(hum()).logits)
        assert len(scope.generate(hum(), 3).tokens) <= 3


def test_features_are_given_to_the_model_unchanged() -> None:
    features = torch.randn(8, 100, generator=torch.Generator().manual_seed(0))
    with headscope.load(tiny.whisper(), tiny.tokenizer()) as scope:
        look = scope.look(features)
        assert [token.text for token in look.tokens][:2] == ["frame 0", "frame 1"]
        with pytest.raises(InputError, match="no feature extractor was given"):
            scope.look(hum())
        with pytest.raises(InputError, match=r"does not run on input_features \(1, 8, 30\)"):
            scope.look(features[:, :30])


def test_files_are_opened(tmp_path: Path) -> None:
    picture().save(tmp_path / "seen.png")
    with wave.open(str(tmp_path / "heard.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((hum() * 32767).astype("<i2").tobytes())
    (tmp_path / "read.txt").write_text("words")
    with headscope.load(tiny.vit(), of_size(32)) as scope:
        torch.testing.assert_close(scope.look(tmp_path / "seen.png").logits, scope.look(picture()).logits)
        with pytest.raises(InputError, match=r"neither a picture that Pillow reads nor a \.wav file"):
            scope.look(tmp_path / "read.txt")
        with pytest.raises(InputError, match="there is no file"):
            scope.look(tmp_path / "gone.png")
        with pytest.raises(InputError, match="ViTModel takes no sound; it reads pictures"):
            scope.look(tmp_path / "heard.wav")
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    with headscope.load(tiny.whisper(), processor=extractor) as scope:
        assert len(scope.look(tmp_path / "heard.wav").tokens) == 50


def test_a_saved_folder_has_its_processor(tmp_path: Path) -> None:
    tiny.vit().save_pretrained(tmp_path)
    of_size(32).save_pretrained(tmp_path)
    with headscope.load(tmp_path) as scope:
        assert scope.look(picture()).tokens[1].text == "patch 0,0"


def test_the_command_line_looks_at_a_picture(tmp_path: Path) -> None:
    tiny.vit().save_pretrained(tmp_path / "model")
    of_size(32).save_pretrained(tmp_path / "model")
    picture().save(tmp_path / "seen.png")
    done = CliRunner().invoke(app, ["look", str(tmp_path / "seen.png"), "--model", str(tmp_path / "model"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["tokens"][:2] == ["CLS", "patch 0,0"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (picture(), "GPT2LMHeadModel takes no picture; it reads text"),
        (hum(), "GPT2LMHeadModel takes no sound; it reads text"),
        ({"input_ids": torch.ones(2, 3, dtype=torch.long)}, "2 texts at once; look at one text at a time"),
    ],
)
def test_a_text_model_says_what_it_reads(given: Any, message: str) -> None:
    with headscope.load(tiny.gpt2()) as scope, pytest.raises(InputError, match=message):
        scope.look(given)


def test_without_a_processor_the_error_says_what_to_pass() -> None:
    with headscope.load(tiny.vit()) as scope:
        with pytest.raises(InputError, match=r"no image processor was given.*pass processor="):
            scope.look(picture())
        with pytest.raises(InputError, match=r"does not run on pixel_values \(1, 3, 8, 8\)"):
            scope.look(torch.zeros(3, 8, 8))
        with pytest.raises(InputError, match="2 of pixel_values at once"):
            scope.look(torch.zeros(2, 3, 32, 32))


def stereo(file: Path, frames: int, width: int = 2) -> bytes:
    """Left climbs and right is silent."""
    with wave.open(str(file), "wb") as written:
        written.setnchannels(2)
        written.setsampwidth(width)
        written.setframerate(8000)
        written.writeframes(b"".join(struct.pack("<hh", 64 * at, 0) for at in range(frames)) if width == 2 else b"")
    return file.read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4, 7, 30])
def test_a_truncated_wav_gives_its_whole_frames(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "a.wav"
    whole = stereo(file, 10)
    file.write_bytes(whole[: len(whole) - cut])
    sound, text = recognise(file)
    assert isinstance(sound, Sound)
    assert (sound.rate, text) == (8000, None)
    assert sound.samples.tolist() == [32 * at / 32768 for at in range((40 - cut) // 4)]


def test_empty_and_truncated_files_are_refused(tmp_path: Path) -> None:
    silent = tmp_path / "silent.wav"
    stereo(silent, 0)
    with pytest.raises(InputError, match=r"silent.wav holds no samples; give a longer recording"):
        recognise(silent)
    for name in ("half.png", "half.jpg"):
        file = tmp_path / name
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(file)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(InputError, match=f"{name} is a picture that cannot be read to its end: .*; fetch it again"):
            recognise(file)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"array": ["loud"], "sampling_rate": 8000}, "a sound is one row of samples, and these are not numbers"),
        ({"array": [[[0.0]], [[1.0]]], "sampling_rate": 8000}, r"this has the shape \(2, 1, 1\); give one channel"),
        ({"array": [0.5], "sampling_rate": None}, "sampling_rate=None: give samples per second, as in 16000"),
        ({"array": [0.5], "sampling_rate": 0}, "sampling_rate=0: give samples per second"),
        ({"array": [0.5], "sampling_rate": 0.9}, "sampling_rate=0.9: give samples per second"),
        ({"array": [0.5], "sampling_rate": True}, "sampling_rate=True: give samples per second"),
        ({"array": np.ones((9, 9)), "sampling_rate": 1}, r"this has the shape \(9, 9\); give one channel"),
        ({"array": [0.5], "sampling_rate": "8000"}, "sampling_rate='8000'"),
        ({"array": [0.5], "sampling_rate": float("nan")}, "sampling_rate=nan"),
    ],
)
def test_sounds_that_are_not_samples_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recognise(given)


def test_a_decoder_is_given_what_its_own_generate_would_feed_it() -> None:
    model = tiny.whisper()
    config = model.generation_config
    config.is_multilingual, config.no_timestamps_token_id = True, 20
    config.lang_to_id, config.task_to_id = {"<|en|>": 21, "<|de|>": 22}, {"transcribe": 23, "translate": 24}
    config.language, config.task, config.max_length = "en", "transcribe", 40
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    fed: list[list[int]] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: fed.append(kwargs["decoder_input_ids"][0].tolist()), with_kwargs=True
    )
    features = extractor(hum(), sampling_rate=RATE, return_tensors="pt")["input_features"]
    written = model.generate(features, max_new_tokens=3)[0].tolist()
    hook.remove()
    assert fed[0] == [1, 21, 23, 20]
    with headscope.load(model, tiny.tokenizer(), processor=extractor) as scope:
        assert scope.look(hum()).prepared.inputs["decoder_input_ids"].tolist() == [fed[0]]
        look = scope.look((hum(), "the horse"))
        assert look.prepared.inputs["decoder_input_ids"].tolist() == [[*fed[0], 4, 5]]
        own = model(input_features=features, decoder_input_ids=look.prepared.inputs["decoder_input_ids"]).logits
        torch.testing.assert_close(look.logits, own[0].detach(), rtol=1e-4, atol=1e-5)
        assert int(scope.look(hum()).logits[-1].argmax()) == (written[0] if written[0] not in fed[0] else written[4])


def test_channels_are_mixed_and_other_rates_resampled_or_refused() -> None:
    stereo = np.stack([hum(), np.zeros_like(hum())])
    for given in (stereo, stereo.T):
        medium, _ = recognise({"array": given, "sampling_rate": RATE})
        assert isinstance(medium, Sound)
        np.testing.assert_allclose(medium.samples, hum() / 2, rtol=1e-6)
    installed = importlib.util.find_spec("scipy") is not None
    slow = Sound(hum()[::2].copy(), RATE // 2)
    if not installed:
        with pytest.raises(InputError, match=r"8000 samples per second and the model reads 16000; resample it first"):
            resampled(slow, RATE)
        return
    made = resampled(slow, RATE)
    assert made.rate == RATE
    assert np.abs(made.samples[400:-400] - hum()[400:-400]).max() < 0.01


SAMPLES = np.array([0.5, -0.5, 0.25], dtype=np.float32)
