"""Denoisers and autoencoders of diffusers, at one step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def _unet(library: Any) -> tuple[Any, Any]:
    blocks = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    model = library.UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 32), layers_per_block=1, cross_attention_dim=16, attention_head_dim=8,
        norm_num_groups=8, **blocks,
    )  # fmt: skip
    return model, {"sample": _draw(1, 4, 8, 8), "timestep": 300, "encoder_hidden_states": _draw(1, 5, 16)}


def _unconditional(library: Any) -> tuple[Any, Any]:
    model = library.UNet2DModel(
        sample_size=8, block_out_channels=(32, 32), layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, {"sample": _draw(1, 3, 8, 8), "timestep": 300}


def _dit(library: Any) -> tuple[Any, Any]:
    model = library.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, patch_size=2,
        norm_num_groups=8,
    )  # fmt: skip
    inputs = {"hidden_states": _draw(1, 4, 8, 8), "timestep": torch.tensor([300]), "class_labels": torch.tensor([3])}
    return _awake(model), inputs


def _sd3(library: Any) -> tuple[Any, Any]:
    model = library.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=16, caption_projection_dim=32, pooled_projection_dim=12, out_channels=4,
        pos_embed_max_size=8,
    )  # fmt: skip
    inputs = {"hidden_states": _draw(1, 4, 8, 8), "encoder_hidden_states": _draw(1, 5, 16)}
    return _awake(model), {**inputs, "pooled_projections": _draw(1, 12), "timestep": torch.tensor([300])}


def _flux(library: Any) -> tuple[Any, Any]:
    model = library.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=16, pooled_projection_dim=12, axes_dims_rope=(2, 2, 4),
    )  # fmt: skip
    inputs = {
        "hidden_states": _draw(1, 16, 4), "encoder_hidden_states": _draw(1, 5, 16), "pooled_projections": _draw(1, 12),
        "timestep": torch.tensor([0.3]), "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(5, 3),
    }  # fmt: skip
    return _awake(model), inputs


def _pixart(library: Any) -> tuple[Any, Any]:
    model = library.PixArtTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        cross_attention_dim=32, caption_channels=16, patch_size=2, use_additional_conditions=False,
    )  # fmt: skip
    inputs = {"hidden_states": _draw(1, 4, 8, 8), "encoder_hidden_states": _draw(1, 5, 16)}
    return _awake(model), {**inputs, "timestep": torch.tensor([300])}


def _autoencoder(library: Any) -> tuple[Any, Any]:
    model = library.AutoencoderKL(
        block_out_channels=(16, 16), norm_num_groups=8, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return model, {"sample": _draw(1, 3, 16, 16)}


def _awake(model: Any) -> Any:
    """Draw weights that are zero at the start: a fresh transformer denoiser passes nothing on."""
    from tests.conformance.library_cases import _redraw

    _redraw(model)
    return model


DIFFUSERS = {
    "UNet2DConditionModel": _unet, "UNet2DModel": _unconditional, "DiTTransformer2DModel": _dit,
    "SD3Transformer2DModel": _sd3, "FluxTransformer2DModel": _flux, "PixArtTransformer2DModel": _pixart,
    "AutoencoderKL": _autoencoder,
}  # fmt: skip
