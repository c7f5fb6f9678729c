"""Changes to tiny configs that sizes by name do not cover."""

from __future__ import annotations

from typing import Any

_THREE_AXES = {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "mrope_section": [2, 3, 3]}}
_HALF_TURNED = {
    "rope_parameters": {
        "rope_theta": 10000.0, "rope_type": "default", "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5,
    }
}  # fmt: skip

CHANGES: dict[str, dict[str, Any]] = {
    "xmod": {"default_language": "en_XX"},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "bamba": {"attn_layer_indices": [1]},
    "esmc": {"num_key_value_heads": 4},
    "esm": {"pad_token_id": 0, "mask_token_id": 5},
    "gptj": {"rotary_dim": 8},
    "codegen": {"rotary_dim": 8, "n_ctx": 64, "mp_num": 1},
    "mobilevit": {"image_size": 128},
    "pvt_v2": {"image_size": 128},
    "perceiver": {
        "num_latents": 8,
        "d_latents": 64,
        "d_model": 64,
        "num_self_attends_per_block": 2,
        "qk_channels": 64,
        "max_position_embeddings": 64,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "v_channels": 64,
    },
    "zaya": {"num_experts_per_tok": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "nemotron": {"num_key_value_heads": 2},
    **{
        key: {"text_config": _THREE_AXES}
        for key in ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl", "glm4v", "glm46v", "glm_ocr", "glmga")
    },
    "glm4v_moe": {"text_config": _HALF_TURNED},
    "qwen2_5_omni_thinker": {"text_config": _THREE_AXES, "vision_start_token_id": 155},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 155},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "longcat_flash": {"head_dim": 8},
    "step3p7": {"text_config": {"sliding_window": 8}},
    "zamba": {"num_hidden_layers": 5, "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "hybrid"]},
    "lilt": {"hidden_size": 48, "num_attention_heads": 4},
    "gemma3n_text": {"intermediate_size": [96] * 5, "activation_sparsity_pattern": [0.0] * 5, "laurel_rank": 8},
    "gemma3n": {
        "text_config": {"intermediate_size": [96] * 5, "activation_sparsity_pattern": [0.0] * 5, "laurel_rank": 8}
    },
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4},
    "granite_speech5_ctc": {"num_key_value_heads": 4, "encoder_config": {"num_key_value_heads": 4}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 16}},
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "nemo_speechlm": {"head_config": {"audio_hidden_size": 64}},
    **{
        key: {
            "window_size": 4,
            "image_size": 32,
            "patch_size": 4,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "embed_dim": 16,
        }
        for key in ("swin", "donut-swin")
    },
}
