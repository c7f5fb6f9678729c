"""Make a tiny config of any family: sizes set by attribute name, every layer type of the default kept."""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig

WIDTH, HEADS, KV_HEADS, HEAD, LAYERS, VOCABULARY = 64, 4, 2, 16, 2, 200

SIZES: dict[str, Any] = {
    **dict.fromkeys(
        [
            "hidden_size",
            "d_model",
            "n_embd",
            "dim",
            "embed_dim",
            "embedding_size",
            "decoder_hidden_size",
            "encoder_hidden_size",
            "text_embed_dim",
            "cross_attention_hidden_size",
            "enc_hidden_size",
            "dec_hidden_size",
            "mm_hidden_size",
        ],
        WIDTH,
    ),
    **dict.fromkeys(
        [
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "num_key_value_heads_enc",
            "encoder_num_attention_heads",
            "decoder_num_attention_heads",
            "num_cross_attention_heads",
            "attention_heads",
            "speech_encoder_attention_heads",
            "decoder_num_heads",
            "num_vision_heads",
        ],
        HEADS,
    ),
    **dict.fromkeys(
        [
            "num_key_value_heads",
            "num_kv_heads",
            "n_kv_heads",
            "encoder_num_key_value_heads",
            "decoder_num_key_value_heads",
        ],
        KV_HEADS,
    ),
    **dict.fromkeys(
        ["head_dim", "d_kv", "attention_head_dim", "kv_channels", "head_size", "swa_head_dim", "global_head_dim"], HEAD
    ),
    **dict.fromkeys(
        [
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
            "num_decoder_layers",
            "num_encoder_layers",
            "speech_encoder_layers",
            "depth",
            "encoder_num_hidden_layers",
            "decoder_num_hidden_layers",
            "decoder_num_layers",
            "num_mtp_layers",
        ],
        LAYERS,
    ),
    **dict.fromkeys(
        [
            "intermediate_size",
            "d_ff",
            "ffn_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "n_inner",
            "mlp_dim",
            "hidden_dim",
            "ffn_hidden_size",
            "speech_encoder_intermediate_size",
            "decoder_ffn_size",
            "shared_intermediate_size",
            "intermediate_size_mlp",
        ],
        96,
    ),
    **dict.fromkeys(
        [
            "moe_intermediate_size",
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "expert_ffn_hidden_size",
        ],
        32,
    ),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "moe_top_k"], 2),
    **dict.fromkeys(["n_group", "topk_group", "num_expert_group", "moe_layer_start_index"], 1),
    "first_k_dense_replace": 1,
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 0,
    "max_position_embeddings": 256,
    "n_positions": 256,
    "max_source_positions": 50,
    "max_target_positions": 64,
    "sliding_window": 8,
    "sliding_window_size": 8,
    "attention_chunk_size": 8,
    "q_lora_rank": 32,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 6,
    "image_size": 32,
    "img_size": 32,
    "patch_size": 8,
    "num_mel_bins": 16,
    "input_feat_per_channel": 16,
    "feature_projection_input_dim": 16,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "mamba_d_ssm": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "lru_width": WIDTH,
    "projection_dim": 32,
    "num_buckets": 32,
    "out_hidden_size": WIDTH,
    "position_buckets": 32,
    "num_frames": 4,
    "tubelet_size": 2,
    "temporal_patch_size": 2,
    "conv_dim": [16, 16, 16],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "tdnn_dim": [16, 16, 16, 16, 16],
    "classifier_proj_size": 32,
    "xvector_output_dim": 16,
}
TOKENS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "sep_token_id": 3,
    "cls_token_id": 4,
}
LONGEST = 12
LAYER_LISTS = ("layer_types", "layers_block_type", "block_types", "mlp_layer_types")


def tiny_config(model_type: str, model: Any, changes: dict[str, Any] | None = None) -> PreTrainedConfig:
    """The smallest config of a family that still has every layer type of its default."""
    kind = CONFIG_MAPPING[model_type]
    own = getattr(model, "config_class", None)
    kind = own if own is not None and own is not kind and not issubclass(kind, own) else kind
    return kind(**_merge(overrides(kind()), changes or {}))


def _merge(made: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for name, value in changes.items():
        made[name] = _merge(dict(made.get(name) or {}), value) if isinstance(value, dict) else value
    return {name: value for name, value in made.items() if value is not LEAVE}


def overrides(default: Any) -> dict[str, Any]:
    """What to construct a config with, given its defaults: sizes by name, inner configs in the same way."""
    changed: dict[str, Any] = {}
    inner = {
        name
        for name in getattr(default, "sub_configs", {})
        if isinstance(getattr(default, name, None), PreTrainedConfig)
    }
    for name in inner:
        part = getattr(default, name)
        changed[name] = {**overrides(part), **({"model_type": part.model_type} if part.model_type else {})}
    latent = hasattr(default, "qk_rope_head_dim")
    for name, value in vars(default).items():
        if name in inner or (latent and name == "head_dim") or (value is None and name not in NEEDED):
            continue
        size = SIZES.get(name)
        if latent and name == "num_key_value_heads":
            changed[name] = HEADS
        elif size is not None and _fits(value, size):
            changed[name] = _like(value, size)
        elif name in TOKENS:
            changed[name] = TOKENS[name]
        elif name.endswith(("token_id", "token_index")) and isinstance(value, int) and value >= VOCABULARY:
            changed[name] = 150 + sum(map(ord, name)) % 40
        elif name in ("rope_parameters", "rope_scaling") and isinstance(value, dict) and "mrope_section" in value:
            changed[name] = {**value, "mrope_section": _sections(value)}
    return {**changed, **_layers(default)}


LEAVE = object()
NEEDED = {"vocab_size", "head_dim", "num_experts_per_tok"}


def _sections(rope: dict[str, Any]) -> list[int]:
    """The parts of a rotation over time, height and width, shrunk with the head."""
    old, half = rope["mrope_section"], int(HEAD * rope.get("partial_rotary_factor", 1.0)) // 2
    first = max(1, half * old[0] // sum(old))
    return [first, (half - first) // 2, half - first - (half - first) // 2]


def _fits(value: Any, size: Any) -> bool:
    if isinstance(value, bool) or not (value is None or isinstance(value, (int, float, list, tuple))):
        return False
    return isinstance(value, (list, tuple)) or not isinstance(size, list)


def _like(value: Any, size: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(size if isinstance(size, list) else [size] * len(value))
    return size


def _layers(default: Any) -> dict[str, Any]:
    """As many layers as it takes to have every type, and the lists that name them cut to that length."""
    names = [name for name in LAYER_LISTS if isinstance(vars(default).get(name), (list, tuple))]
    count = next(
        (
            name
            for name in ("num_hidden_layers", "n_layer", "num_layers")
            if isinstance(getattr(default, name, None), int)
        ),
        None,
    )
    if not names or count is None:
        return {}
    n = LAYERS
    for name in names:
        kinds = list(getattr(default, name))
        n = max([n, *(kinds.index(kind) + 1 for kind in set(kinds))])
    if n > LONGEST:
        return {}
    return {count: n, **{name: list(getattr(default, name))[:n] for name in names if len(getattr(default, name)) >= n}}


@torch.no_grad()
def redraw(model: torch.nn.Module, seed: int = 0) -> None:
    """Draw weights large enough that attention is far from uniform, and biases and sinks are not zero."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if not weight.is_floating_point() or "A_log" in name or "dt_" in name:
            continue
        if weight.ndim >= 2 and "norm" not in name:
            fan = weight.shape[-1] if weight.ndim == 2 else weight[0].numel() if weight.ndim != 3 else weight.shape[-1]
            scale = 1.0 if "embed" in name.lower() else 1.4 * fan**-0.5
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
        elif "bias" in name or "sink" in name:
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
        elif weight.ndim == 1 and bool(weight.any()):
            weight.mul_(1 + 0.2 * torch.randn(weight.shape, generator=generator))
