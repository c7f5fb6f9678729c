"""Small inputs that make a model run once, whatever it reads: text, pictures, sound or series."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

TEXT_LENGTH, TARGET_LENGTH, BATCH = 12, 7, 2


def probe_inputs(model: torch.nn.Module, length: int = TEXT_LENGTH, target: int = TARGET_LENGTH) -> dict[str, Tensor]:
    """Inputs for one short pass. Encoder and decoder lengths differ, so that their attentions can be told apart."""
    takes = set(inspect.signature(model.forward).parameters)
    config = getattr(model, "config", None)
    made: dict[str, Tensor] = {}
    if "input_ids" in takes:
        made["input_ids"] = tokens(config, length)
    main = str(getattr(model, "main_input_name", "input_ids"))
    text_first = "input_ids" in made and main == "input_ids" and hasattr(model, "generate")
    for name, make in _MAKERS.items():
        if name in takes and (name == main or (not text_first and name == "pixel_values")):
            made[name] = make(config)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        made["decoder_input_ids"] = tokens(config, target)
    if getattr(config, "add_cross_attention", False) and "encoder_hidden_states" in takes:
        made["encoder_hidden_states"] = torch.randn(BATCH, length + 4, _width(config), generator=_dice())
    if getattr(config, "is_encoder_decoder", False) and main != "input_ids" and "decoder_input_ids" in made:
        made.pop("input_ids", None)
    device, dtype = _place(model)
    return {name: value.to(device, dtype if value.is_floating_point() else value.dtype) for name, value in made.items()}


def tokens(config: Any, length: int) -> Tensor:
    """Ordinary tokens, none of them special, different in every place."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    sizes = [getattr(part, "vocab_size", None) for part in (text, config)]
    vocabulary = next((size for size in sizes if isinstance(size, int) and size > 0), 100)
    special = _special_ids(config) | _special_ids(text)
    ordinary = [token for token in range(vocabulary) if token not in special] if vocabulary < 4096 else None
    places = torch.arange(BATCH * length).view(BATCH, length)
    if ordinary:
        return torch.tensor(ordinary)[(7 + 13 * places) % len(ordinary)]
    return 1000 + (7 + 13 * places) % (vocabulary - 2000)


def _special_ids(config: Any) -> set[int]:
    found: set[int] = set()
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index", "token_ids")):
            found |= {
                token for token in (value if isinstance(value, list | tuple) else [value]) if isinstance(token, int)
            }
    return found


def _part(config: Any, *names: str) -> Any:
    """The sub-config that speaks about pictures or sound, or the config itself."""
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
    return torch.randn(shape, generator=_dice())


def _features(config: Any) -> Tensor:
    audio = _part(config, "audio_config", "encoder_config", "speech_encoder_config")
    bins = _first(
        audio, "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "input_dim", otherwise=80
    )
    longest = getattr(audio, "max_source_positions", None)
    if hasattr(audio, "num_mel_bins") and getattr(config, "model_type", "") in ("whisper", "qwen2_audio", "voxtral"):
        return torch.randn(BATCH, bins, 2 * (longest or 50), generator=_dice())
    return torch.randn(BATCH, 96, bins, generator=_dice())


def _wave(config: Any) -> Tensor:
    bins, longest = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if bins and longest and hasattr(config, "frequency_stride"):
        return torch.randn(BATCH, longest, bins, generator=_dice())
    return torch.randn(BATCH, 8000, generator=_dice())


def _width(config: Any) -> int:
    return int(_first(config, "cross_attention_hidden_size", "hidden_size", "d_model", "n_embd", otherwise=64))


def _dice() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _place(model: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    first = next((weight for weight in model.parameters() if weight.device.type != "meta"), None)
    if first is None:
        return torch.device("cpu"), torch.float32
    floating = next((weight.dtype for weight in model.parameters() if weight.is_floating_point()), torch.float32)
    return first.device, floating


_MAKERS = {"pixel_values": _pixels, "input_features": _features, "input_values": _wave, "pixel_values_videos": _pixels}
