"""Make small inputs for a first forward pass of any model: text, pictures, sound or time series."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from headscope.models.modes import device_of

TEXT_LENGTH, TARGET_LENGTH, BATCH = 12, 7, 2


def probe_inputs(
    model: torch.nn.Module, length: int = TEXT_LENGTH, target: int = TARGET_LENGTH
) -> list[dict[str, Tensor]]:
    """Candidate inputs for one short pass, best first. Encoder and decoder lengths differ, to tell them apart."""
    takes = set(inspect.signature(model.forward).parameters)
    config = getattr(model, "config", None)
    main = str(getattr(model, "main_input_name", "input_ids"))
    beside: dict[str, Tensor] = {}
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    if encoder_decoder and "decoder_input_ids" in takes:
        beside["decoder_input_ids"] = tokens(config, target)
    if getattr(config, "add_cross_attention", False) and "encoder_hidden_states" in takes:
        beside["encoder_hidden_states"] = torch.randn(BATCH, length + 4, _width(config), generator=_generator())
    text = {"input_ids": tokens(config, length)} if "input_ids" in takes else {}
    others = [{name: make(config)} for name, make in _MAKERS.items() if name in takes]
    alone = [{**other, **beside} for other in others]
    guesses = [{**text, **beside}] if text else []
    if text and main != "input_ids" and encoder_decoder:
        guesses = alone + guesses
    elif not text or main != "input_ids":
        guesses = alone + [{**text, **other} for other in others] + guesses
    else:
        guesses += [{**text, **other, **beside} for other in others] + alone
    device = device_of(model)
    dtype = next((weight.dtype for weight in model.parameters() if weight.is_floating_point()), torch.float32)
    return [
        {key: value.to(device, dtype if value.is_floating_point() else value.dtype) for key, value in guess.items()}
        for guess in guesses
        if guess
    ]


def tokens(config: Any, length: int) -> Tensor:
    """Token ids without special tokens, different at every position."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    sizes = [getattr(part, "vocab_size", None) for part in (text, config)]
    vocabulary = next((size for size in sizes if isinstance(size, int) and size > 0), 100)
    special = _special_ids(config) | _special_ids(text)
    ordinary = [token for token in range(vocabulary) if token not in special] if vocabulary < 4096 else None
    positions = torch.arange(BATCH * length).view(BATCH, length)
    if ordinary:
        return torch.tensor(ordinary)[(7 + 13 * positions) % len(ordinary)]
    return 1000 + (7 + 13 * positions) % (vocabulary - 2000)


def _special_ids(config: Any) -> set[int]:
    found: set[int] = set()
    for name, value in vars(config).items() if config is not None else ():
        if name.endswith(("token_id", "token_index", "token_ids")):
            found |= {
                token for token in (value if isinstance(value, list | tuple) else [value]) if isinstance(token, int)
            }
    return found


def _part(config: Any, *names: str) -> Any:
    """The sub-config for pictures or sound, or the config itself."""
    for name in names:
        inner = getattr(config, name, None)
        if inner is not None and not isinstance(inner, dict):
            return inner
    return config


def _first(config: Any, *names: str, otherwise: Any = None) -> Any:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), otherwise)


def _pixels(config: Any) -> Tensor:
    vision = _part(config, "vision_config", "backbone_config")
    size = _first(vision, "image_size", "img_size", "input_size", otherwise=224)
    if isinstance(size, dict):
        size = (size.get("height", 224), size.get("width", 224))
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = _first(vision, "num_channels", "in_channels", "in_chans", otherwise=3)
    frames = getattr(vision, "num_frames", None)
    shape = (BATCH, channels, height, width) if frames is None else (BATCH, frames, channels, height, width)
    return torch.randn(shape, generator=_generator())


def _features(config: Any) -> Tensor:
    audio = _part(config, "audio_config", "encoder_config", "speech_encoder_config")
    bins = _first(
        audio, "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "input_dim", otherwise=80
    )
    longest = getattr(audio, "max_source_positions", None)
    if hasattr(audio, "num_mel_bins") and getattr(config, "model_type", "") in ("whisper", "qwen2_audio", "voxtral"):
        return torch.randn(BATCH, bins, 2 * (longest or 50), generator=_generator())
    return torch.randn(BATCH, 96, bins, generator=_generator())


def _wave(config: Any) -> Tensor:
    bins, longest = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if bins and longest and hasattr(config, "frequency_stride"):
        return torch.randn(BATCH, longest, bins, generator=_generator())
    return torch.randn(BATCH, 8000, generator=_generator())


def _width(config: Any) -> int:
    return int(_first(config, "cross_attention_hidden_size", "hidden_size", "d_model", "n_embd", otherwise=64))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _series(config: Any) -> Tensor:
    length = _first(config, "context_length", "prediction_length", otherwise=32)
    return torch.randn(BATCH, length, _first(config, "num_input_channels", otherwise=1), generator=_generator())


_MAKERS = {
    "past_values": _series,
    "pixel_values": _pixels,
    "input_features": _features,
    "input_values": _wave,
    "pixel_values_videos": _pixels,
}
